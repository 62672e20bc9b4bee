package handler

import (
	"github.com/gin-gonic/gin"
)

// describeDeductions adds a path for every strategy of the catalogue.
func (h *handler) describeDeductions(paths map[string]any) {
	for _, s := range h.Strategies {
		paths[s.Endpoint] = gin.H{"post": gin.H{
			"operationId": "deduct_" + s.Name, "tags": []string{"deduct"},
			"summary":    "Deduct with strategy " + s.Name + ": " + s.Summary,
			"parameters": deductParameters(),
			"requestBody": gin.H{"required": false, "content": gin.H{"application/json": gin.H{
				"schema": gin.H{"$ref": "#/components/schemas/Deduct"},
			}}},
			"responses": deductResponses(),
		}}
	}
	object(paths, "/v1/stock/{sku}/deduct", "post")["responses"] = deductResponses()
}

func deductParameters() []gin.H {
	var list []gin.H
	for _, name := range []string{
		"Sku", "Quantity", "Wait", "Store", "Hold", "Fencing", "HeedLoss", "PausePoints", "Nested",
		"IdempotencyKey",
	} {
		list = append(list, gin.H{"$ref": "#/components/parameters/" + name})
	}
	return list
}

func deductResponses() gin.H {
	responses := gin.H{"200": gin.H{
		"description": "Sold: the order is written.",
		"headers":     gin.H{"Idempotent-Replayed": gin.H{"$ref": "#/components/headers/Replayed"}},
		"content":     gin.H{"application/json": gin.H{"schema": gin.H{"$ref": "#/components/schemas/Sale"}}},
	}}
	for _, status := range []string{"401", "404", "409", "422", "503"} {
		responses[status] = gin.H{"$ref": "#/components/responses/Problem"}
	}
	return responses
}

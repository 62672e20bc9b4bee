package handler

import (
	_ "embed" // the base document
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
)

//go:embed openapi.json
var openAPIBase []byte

// openAPI serves the OpenAPI 3.1 document: the base, which is written by hand, and a path for every strategy of the catalogue.
func (h *handler) openAPI() gin.HandlerFunc {
	var document map[string]any
	if err := json.Unmarshal(openAPIBase, &document); err != nil {
		panic(fmt.Errorf("openapi.json: %w", err)) // at start-up, and in every test
	}
	paths := document["paths"].(map[string]any)
	for _, s := range h.Strategies {
		paths[s.Endpoint] = gin.H{"post": gin.H{
			"operationId": "deduct_" + s.Name,
			"summary":     "Deduct with strategy " + s.Name + ": " + s.Summary,
			"parameters":  deductParameters(),
			"requestBody": gin.H{"required": false, "content": gin.H{"application/json": gin.H{
				"schema": gin.H{"$ref": "#/components/schemas/Deduct"},
			}}},
			"responses": deductResponses(),
		}}
	}
	paths["/v1/stock/{sku}/deduct"].(map[string]any)["post"].(map[string]any)["responses"] = deductResponses()
	return func(c *gin.Context) {
		if h.plain(c) {
			c.JSON(http.StatusOK, document)
		}
	}
}

func deductParameters() []gin.H {
	var list []gin.H
	for _, name := range []string{"Sku", "Quantity", "Wait", "Store", "Hold", "Fencing", "HeedLoss", "Pause", "Nested"} {
		list = append(list, gin.H{"$ref": "#/components/parameters/" + name})
	}
	return list
}

func deductResponses() gin.H {
	responses := gin.H{"200": gin.H{
		"description": "Sold: the order is written.",
		"content":     gin.H{"application/json": gin.H{"schema": gin.H{"$ref": "#/components/schemas/Sale"}}},
	}}
	for _, status := range []string{"400", "401", "404", "409", "413", "415", "500", "503"} {
		responses[status] = gin.H{"$ref": "#/components/responses/Problem"}
	}
	return responses
}

package handler

import (
	_ "embed" // the base document
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/gin-gonic/gin"
)

//go:embed openapi.json
var openAPIBase []byte

// openAPI serves the OpenAPI 3.1 document: the base, which is written by hand, a path for every strategy of the
// catalogue, and the answers that are common to all operations that decode their request.
func (h *handler) openAPI() gin.HandlerFunc {
	var document map[string]any
	if err := json.Unmarshal(openAPIBase, &document); err != nil {
		panic(fmt.Errorf("openapi.json: %w", err)) // at start-up, and in every test
	}
	paths := document["paths"].(map[string]any)
	h.keepServed(document, paths)
	for _, s := range h.Strategies {
		paths[s.Endpoint] = gin.H{"post": gin.H{
			"operationId": "deduct_" + s.Name, "tags": []string{"deduct"},
			"summary":    "Deduct with strategy " + s.Name + ": " + s.Summary,
			"parameters": h.deductParameters(),
			"requestBody": gin.H{"required": false, "content": gin.H{"application/json": gin.H{
				"schema": gin.H{"$ref": "#/components/schemas/Deduct"},
			}}},
			"responses": deductResponses(),
		}}
	}
	if deduct := asMap(paths["/v1/stock/{sku}/deduct"]); deduct != nil {
		asMap(deduct["post"])["responses"] = deductResponses()
	}
	for _, item := range paths {
		for _, operation := range asMap(item) {
			if o := asMap(operation); o["operationId"] != nil {
				addDecodeResponses(o)
			}
		}
	}
	return func(c *gin.Context) {
		if h.noFields(c) {
			c.JSON(http.StatusOK, document)
		}
	}
}

// keepServed takes out of the document what this instance does not serve: the client of a shop is not to see what it
// cannot choose.
func (h *handler) keepServed(document, paths map[string]any) {
	for path, item := range paths {
		for _, operation := range asMap(item) {
			tags, _ := asMap(operation)["tags"].([]any)
			customers := slices.Contains(tags, any("orders")) || slices.Contains(tags, any("ledger"))
			if customers && h.Orders == nil {
				delete(paths, path)
			}
		}
	}
	if len(h.Strategies) == 0 {
		for _, path := range []string{"/deduct", "/orders", "/orders/{order_id}/settle"} {
			delete(paths, "/v1/stock/{sku}"+path)
		}
	}
	if h.Profile != Shop {
		return
	}
	stock := asMap(paths["/v1/stock/{sku}"])
	stock["parameters"] = slices.DeleteFunc(stock["parameters"].([]any), func(p any) bool {
		return asMap(p)["$ref"] == "#/components/parameters/Store"
	})
	deduct := asMap(paths["/v1/stock/{sku}/deduct"])
	schema := asMap(asMap(asMap(document["components"])["schemas"])["Deduct"])
	delete(asMap(schema["properties"]), "store")
	schema["required"] = []any{"sku"}
	if deduct == nil {
		return
	}
	body := asMap(asMap(asMap(asMap(deduct["post"])["requestBody"])["content"])["application/json"])
	schema = asMap(body["schema"])
	for _, choice := range []string{"strategy", "store"} {
		delete(asMap(schema["properties"]), choice)
	}
	schema["required"] = []any{}
}

// asMap returns v if it is an object of the document, and nil otherwise.
func asMap(v any) map[string]any {
	switch v := v.(type) {
	case map[string]any:
		return v
	case gin.H:
		return v
	}
	return nil
}

// addDecodeResponses adds the answers to requests that cannot be decoded. The probes decode nothing.
func addDecodeResponses(operation map[string]any) {
	if tags, ok := operation["tags"].([]any); ok && slices.Contains(tags, any("probes")) {
		return
	}
	responses := asMap(operation["responses"])
	for _, status := range []string{"400", "408", "413", "415", "500"} {
		if responses[status] == nil {
			responses[status] = gin.H{"$ref": "#/components/responses/Problem"}
		}
	}
}

func (h *handler) deductParameters() []gin.H {
	var list []gin.H
	for _, name := range []string{
		"Sku", "Quantity", "Wait", "Store", "Hold", "Fencing", "HeedLoss", "PausePoints", "Nested",
		"IdempotencyKey",
	} {
		if name == "Store" && h.Profile == Shop {
			continue
		}
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

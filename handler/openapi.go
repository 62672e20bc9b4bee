package handler

import (
	_ "embed" // the document
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/gin-gonic/gin"
	"go.yaml.in/yaml/v3"
)

//go:embed openapi.yaml
var openAPIFile []byte

func (h *handler) openAPI(c *gin.Context) error {
	c.Data(http.StatusOK, "application/json; charset=utf-8", h.document)
	return nil
}

// describe returns the OpenAPI document of both listeners: openapi.yaml, with a path for every strategy.
func describe(strategies []Strategy) ([]byte, error) {
	var document struct {
		Deduct map[string]any `yaml:"x-deduct"`
		Paths  map[string]any `yaml:"paths"`
		Rest   map[string]any `yaml:",inline"`
	}
	if err := yaml.Unmarshal(openAPIFile, &document); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	for _, s := range strategies {
		post := maps.Clone(document.Deduct)
		post["operationId"] = "deduct_" + s.Name
		post["summary"] = "Deduct with strategy " + s.Name + ": " + s.Summary
		document.Paths[s.Endpoint] = map[string]any{"post": post}
	}
	document.Rest["paths"] = document.Paths
	delete(document.Rest, "x-parts") // the file has aliases of them
	return json.Marshal(document.Rest)
}

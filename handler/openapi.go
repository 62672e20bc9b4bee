package handler

import (
	_ "embed" // the base document
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
)

//go:embed openapi.json
var openAPIBase []byte

func (h *handler) openAPI(c *gin.Context) {
	if h.noFields(c) {
		c.JSON(http.StatusOK, h.document)
	}
}

// parameter matches a parameter in the path of a route.
var parameter = regexp.MustCompile(`:(\w+)`)

// describe returns the OpenAPI 3.1 document of both listeners. To a handwritten base it adds a path for every strategy,
// what routes need of their callers, and the responses common to operations that decode a request.
func (h *handler) describe() map[string]any {
	var document map[string]any
	if err := json.Unmarshal(openAPIBase, &document); err != nil {
		panic(fmt.Errorf("openapi.json: %w", err)) // at start-up, and in every test
	}
	paths := object(document["paths"])
	h.describeDeductions(paths)
	for _, route := range slices.Concat(h.public(), h.operators()) {
		path := parameter.ReplaceAllString(route.path, "{$1}")
		if o := object(paths, path, strings.ToLower(route.method)); o != nil && route.admin {
			addSecurity(o)
		}
	}
	for _, item := range paths {
		for _, operation := range object(item) {
			if o := object(operation); o["operationId"] != nil {
				addDecodeResponses(o)
			}
		}
	}
	return document
}

// addSecurity says that an operation needs an admin token, and how others are refused.
func addSecurity(operation map[string]any) {
	operation["security"] = []any{gin.H{"admin": []any{}}}
	if responses := object(operation["responses"]); responses["401"] == nil {
		responses["401"] = gin.H{"$ref": "#/components/responses/Problem"}
	}
}

// object returns the object at a path of members of v, or nil if there is none.
func object(v any, members ...string) map[string]any {
	var found map[string]any
	switch v := v.(type) {
	case map[string]any:
		found = v
	case gin.H:
		found = v
	}
	if len(members) > 0 {
		return object(found[members[0]], members[1:]...)
	}
	return found
}

// addDecodeResponses adds the responses to requests that cannot be decoded. The probes decode nothing.
func addDecodeResponses(operation map[string]any) {
	if tags, ok := operation["tags"].([]any); ok && slices.Contains(tags, any("probes")) {
		return
	}
	responses := object(operation["responses"])
	for _, status := range []string{"400", "408", "413", "415", "500"} {
		responses[status] = gin.H{"$ref": "#/components/responses/Problem"}
	}
}

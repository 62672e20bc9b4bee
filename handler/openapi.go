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

func (b *Base) openAPI(c *gin.Context) {
	if b.NoFields(c) {
		c.JSON(http.StatusOK, b.document)
	}
}

// parameter matches a parameter in the path of a route.
var parameter = regexp.MustCompile(`:(\w+)`)

// describe returns the OpenAPI 3.1 document. It starts from a handwritten base, removes paths that the public
// listener does not serve, lets the parts add theirs, and adds what routes need of their callers, and the responses
// common to operations that decode a request.
func (b *Base) describe(public, operators []Route) map[string]any {
	var document map[string]any
	if err := json.Unmarshal(openAPIBase, &document); err != nil {
		panic(fmt.Errorf("openapi.json: %w", err)) // at start-up, and in every test
	}
	served := make(map[string]bool)
	for _, route := range public {
		served[parameter.ReplaceAllString(route.Path, "{$1}")] = true
	}
	paths := Object(document["paths"])
	for path, item := range paths {
		if Object(item)["servers"] == nil && !served[path] { // the admin listener has servers of its own
			delete(paths, path)
		}
	}
	for _, p := range b.Parts {
		p.Document(document)
	}
	for _, route := range slices.Concat(public, operators) {
		path := parameter.ReplaceAllString(route.Path, "{$1}")
		if o := Object(paths, path, strings.ToLower(route.Method)); o != nil {
			addSecurity(o, route)
		}
	}
	for _, item := range paths {
		for _, operation := range Object(item) {
			if o := Object(operation); o["operationId"] != nil {
				addDecodeResponses(o)
			}
		}
	}
	return document
}

// addSecurity adds what a route needs of its caller, and how others are refused.
func addSecurity(operation map[string]any, route Route) {
	if !route.Admin {
		return
	}
	operation["security"] = []any{gin.H{"admin": []any{}}}
	if responses := Object(operation["responses"]); responses["401"] == nil {
		responses["401"] = gin.H{"$ref": "#/components/responses/Problem"}
	}
}

// Object returns the object at a path of members of v, or nil if there is none.
func Object(v any, members ...string) map[string]any {
	var object map[string]any
	switch v := v.(type) {
	case map[string]any:
		object = v
	case gin.H:
		object = v
	}
	if len(members) > 0 {
		return Object(object[members[0]], members[1:]...)
	}
	return object
}

// addDecodeResponses adds the responses to requests that cannot be decoded. The probes decode nothing.
func addDecodeResponses(operation map[string]any) {
	if tags, ok := operation["tags"].([]any); ok && slices.Contains(tags, any("probes")) {
		return
	}
	responses := Object(operation["responses"])
	for _, status := range []string{"400", "408", "413", "415", "500"} {
		responses[status] = gin.H{"$ref": "#/components/responses/Problem"}
	}
}

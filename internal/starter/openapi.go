package starter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	stock "example.com/stock"
)

// document is the OpenAPI document of a service, and problems the table of its problems.
const (
	document = "handler/openapi.json"
	problems = "handler/table.go"
)

// kinds matches the kinds of problems in the table, with the error of package service that is mapped to it.
// ofStrategies is the file with the errors of sales by a strategy, which the new service does not have.
var kinds = regexp.MustCompile(`(?:service\.(Err\w+),[^{}]*)?kind\{"(\w+)"`)

const ofStrategies = "service/errors_strategy.go"

// openAPI returns this project's document without the parts that the new service lacks: the strategies, the locks, the
// lab, the problems that are not in its table, and components that only these refer to.
func (c Choice) openAPI(table string) ([]byte, error) {
	text, err := stock.Source.ReadFile(document)
	if err != nil {
		return nil, err
	}
	// This is the only sentence about a missing part.
	text = bytes.ReplaceAll(text, []byte(" Locks on a server without its data still work: GET /v1/strategies."), nil)
	var d map[string]any
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", document, err)
	}
	d["info"] = map[string]any{
		"title": c.name(), "version": "1", "summary": "Orders, reservations and the ledger of their stock",
		"description": "Errors are application/problem+json (RFC 9457) with a stable type.",
	}
	paths, tags := object(d, "paths"), make(map[any]bool)
	for path, item := range paths {
		for _, o := range operations(item) {
			tag := o["tags"].([]any)[0]
			served := tag == "orders" || tag == "ledger" || tag == "probes" || tag == "about"
			if path == "/v1/strategies" || !served && path != "/v1/stock/{sku}" {
				delete(paths, path)
				continue
			}
			tags[tag] = true
			if tag != "probes" {
				addRefusals(object(o, "responses"))
			}
		}
	}
	d["tags"] = slices.DeleteFunc(d["tags"].([]any), func(t any) bool { return !tags[t.(map[string]any)["name"]] })
	counts := object(paths, "/v1/stock/{sku}")
	counts["parameters"] = slices.DeleteFunc(counts["parameters"].([]any), func(p any) bool {
		return p.(map[string]any)["$ref"] == "#/components/parameters/Store"
	})
	put := object(counts, "put")
	put["summary"] = "Set the stock"
	put["description"] = "The difference is a movement. With If-Match it is set only as long as it is what was read, " +
		"with If-None-Match: * only if it does not exist; 412 otherwise, and nothing is written."
	schemas := object(d, "components", "schemas")
	object(schemas, "Stock", "properties", "store")["enum"] = c.Stores
	types := []string{"/problems/bad_gateway"} // from nginx
	strategies, err := stock.Source.ReadFile(ofStrategies)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds.FindAllStringSubmatch(table, -1) {
		if kind[1] == "" || !bytes.Contains(strategies, []byte("\t"+kind[1]+" ")) {
			types = append(types, "/problems/"+kind[2])
		}
	}
	slices.Sort(types)
	object(schemas, "Problem", "properties", "type")["enum"] = slices.Compact(types)
	for prune(d) {
	}
	text, err = json.MarshalIndent(d, "", "  ")
	return append(text, '\n'), err
}

// object returns the object at the end of a path, which must exist.
func object(in map[string]any, path ...string) map[string]any {
	for _, key := range path {
		in = in[key].(map[string]any)
	}
	return in
}

// operations returns the operations of a path.
func operations(item any) (list []map[string]any) {
	for _, o := range item.(map[string]any) {
		if o, ok := o.(map[string]any); ok {
			list = append(list, o)
		}
	}
	return list
}

// addRefusals adds the responses to requests that cannot be decoded. This project's handler adds them to its own
// document when it starts.
func addRefusals(responses map[string]any) {
	for _, status := range []string{"400", "408", "413", "415", "500"} {
		if responses[status] == nil {
			responses[status] = map[string]any{"$ref": "#/components/responses/Problem"}
		}
	}
}

// prune removes the components that nothing refers to, and reports whether there were any.
func prune(d map[string]any) (removed bool) {
	text, _ := json.Marshal(d) // it was read as JSON
	for kind, list := range object(d, "components") {
		list := list.(map[string]any)
		before := len(list)
		maps.DeleteFunc(list, func(name string, _ any) bool {
			return kind != "securitySchemes" && !strings.Contains(string(text), `"#/components/`+kind+"/"+name+`"`)
		})
		removed = removed || len(list) < before
	}
	return removed
}

package report

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

type object = map[string]any

// Schema returns the JSON schema (draft 2020-12) of what loadtest.WriteJSON and checkout.WriteJSON write. It is made
// from the types, so that it cannot differ from them.
func Schema() ([]byte, error) {
	deductions := document(reflect.TypeFor[loadtest.Report](), loadtest.ReportFormat, loadtest.ReportVersion)
	deductions["title"] = "Deductions"
	orders := document(reflect.TypeFor[checkout.Result](), checkout.ReportFormat, checkout.ReportVersion)
	orders["title"] = "Orders: stock checkout"
	text, err := json.MarshalIndent(object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Results of stock load",
		"description": "What `stock load --json` and `stock report --json` write. Keys that end in _ms are " +
			"milliseconds, those in _units units of stock.",
		"anyOf": []any{deductions, orders},
	}, "", " ")
	return append(text, '\n'), err
}

// document returns the schema of a report with that format and version.
func document(t reflect.Type, format string, version int) object {
	s := schemaOfStruct(t)
	properties := s["properties"].(object)
	properties["format"], properties["version"] = object{"const": format}, object{"const": version}
	return s
}

// schemaOf returns the schema of t. It panics for a kind of type that no report has.
func schemaOf(t reflect.Type) object {
	switch t { // those that write themselves as text
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[loadtest.Rate]():
		return object{"type": "string", "description": "requests per second: 1000, or 100..1000"}
	case reflect.TypeFor[words.Text]():
		return object{"type": "string", "description": "in English"}
	case reflect.TypeFor[loadtest.Finding]():
		return object{"enum": []any{loadtest.Holds, loadtest.Broken, loadtest.Undecided}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Pointer:
		return object{"anyOf": []any{object{"type": "null"}, schemaOf(t.Elem())}}
	case reflect.Slice:
		return object{"type": []any{"array", "null"}, "items": schemaOf(t.Elem())}
	case reflect.Array:
		return object{"type": "array", "items": schemaOf(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": schemaOf(t.Elem())}
	case reflect.Struct:
		return schemaOfStruct(t)
	default:
		panic("no schema for " + t.String())
	}
}

// schemaOfStruct returns the schema of an object. It is closed: a reader can rely on there being no other keys.
func schemaOfStruct(t reflect.Type) object {
	properties, required := object{}, []any{}
	for _, field := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "-" || name == "" {
			continue
		}
		properties[name] = schemaOf(field.Type)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	durations := func(optional []string, always ...string) {
		for _, name := range append(optional, always...) {
			properties[name] = object{"type": "string", "description": "a duration: 1m30s"}
		}
		for _, name := range always {
			required = append(required, name)
		}
	}
	switch t { // plans write their durations as "5s", by code of their own
	case reflect.TypeFor[loadtest.Plan]():
		durations([]string{"duration", "warm_up", "wait"}, "timeout")
	case reflect.TypeFor[checkout.Plan]():
		durations([]string{"duration"}, "ttl", "timeout")
	}
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

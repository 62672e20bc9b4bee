package report_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
)

var update = flag.Bool("update", false, "rewrite schema.json and the recorded pages")

type object = map[string]any

// schemaOf returns the JSON schema of t. Objects are closed: a reader can rely on there being no other keys.
func schemaOf(t reflect.Type) any {
	switch t {
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

func schemaOfStruct(t reflect.Type) any {
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
	if t == reflect.TypeFor[loadtest.Plan]() { // writes its durations as "5s"
		for _, name := range []string{"duration", "ramp_up", "warm_up", "think", "wait", "timeout"} {
			properties[name] = object{"type": "string", "description": "a duration: 1m30s"}
		}
		required = append(required, "timeout")
	}
	if t == reflect.TypeFor[checkout.Plan]() {
		for _, name := range []string{"duration", "ttl", "timeout"} {
			properties[name] = object{"type": "string", "description": "a duration: 1m30s"}
		}
		required = append(required, "ttl", "timeout")
	}
	return object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// document returns the schema of a report with that format and version.
func document(t reflect.Type, format string, version int) object {
	s := schemaOf(t).(object)
	properties := s["properties"].(object)
	properties["format"], properties["version"] = object{"const": format}, object{"const": version}
	return s
}

// The published schema matches the types: a new or removed key changes schema.json, which -update rewrites.
func TestSchemaIsUpToDate(t *testing.T) {
	deductions := document(reflect.TypeFor[loadtest.Report](), loadtest.ReportFormat, loadtest.ReportVersion)
	deductions["title"] = "Deductions"
	orders := document(reflect.TypeFor[checkout.Result](), checkout.ReportFormat, checkout.ReportVersion)
	orders["title"] = "Orders: stock checkout"
	s := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema",
		"title":   "Results of stock load",
		"description": "What `stock load --json` and `stock report --json` write. Keys that end in _ms are " +
			"milliseconds, those in _units units of stock.",
		"anyOf": []any{deductions, orders},
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("schema.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), report.Schema()) {
		t.Error("schema.json is not that of the types any more: go test ./loadtest/report -run Schema -update")
	}
}

// Reports that are written fit the schema, and those that do not fit are found.
func TestJSONFitsTheSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(report.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var runs []*loadtest.Result
	for _, name := range recordings() {
		runs = append(runs, recorded(t, name))
	}
	runs[0].Expected = []loadtest.Expectation{{Text: "p99<50ms", Actual: words.Same("3 ms"), Value: 3, Met: true}}
	var b bytes.Buffer
	if err := loadtest.WriteJSON(&b, runs); err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(value); err != nil {
		t.Errorf("%#v", err)
	}
	for from, to := range map[string]string{
		`"finding": "broken"`: `"finding": "passed"`, `"runs":`: `"rums":`,
		`"oversold_units": `: `"oversold_units": 0.5, "x": `, `"version": 2`: `"version": 1`,
	} {
		spoilt := strings.Replace(b.String(), from, to, 1)
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(spoilt))
		if err != nil {
			t.Fatal(err)
		}
		if spoilt == b.String() || s.Validate(value) == nil {
			t.Errorf("%s is taken for %s", to, from)
		}
	}
}

package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// Reports that are written fit the schema, and those that do not fit are found.
func TestJSONFitsTheSchema(t *testing.T) {
	text, err := report.Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
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

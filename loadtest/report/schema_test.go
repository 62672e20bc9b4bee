package report_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
)

// The JSON of runs and of a checkout fits the schema that stock report --schema prints. What is not of its form does
// not fit.
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
	sale, err := judged(visited())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		write  func(io.Writer) error
		spoils map[string]string
	}{
		{func(w io.Writer) error { return loadtest.WriteJSON(w, runs) }, map[string]string{
			`"finding": "broken"`: `"finding": "passed"`, `"runs":`: `"rums":`,
			`"oversold_units": `: `"oversold_units": 0.5, "x": `, `"version": 2`: `"version": 1`,
		}},
		{func(w io.Writer) error { return checkout.WriteJSON(w, sale) }, map[string]string{
			`"finding": "`: `"finding": "x`, `"books":`: `"boots":`, `"ttl": "`: `"tt": "`,
			`"version": 1`: `"version": 2`, `"attempts": `: `"attempts": 0.5, "x": `,
		}},
	} {
		var b strings.Builder
		if err := row.write(&b); err != nil {
			t.Fatal(err)
		}
		fits := func(text string) error {
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			return s.Validate(value)
		}
		if err := fits(b.String()); err != nil {
			t.Errorf("%#v", err)
		}
		for from, to := range row.spoils {
			if spoilt := strings.Replace(b.String(), from, to, 1); spoilt == b.String() || fits(spoilt) == nil {
				t.Errorf("%s is taken for %s", to, from)
			}
		}
	}
}

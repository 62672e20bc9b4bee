package loadtest_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/internal/golden"
	"example.com/stock/loadtest"
)

// Verdicts are whole ones, as they are kept in testdata: the judge says of the same evidence what it has always said.
// Whether it should is what the tests ask that add them.
type verdicts struct{ strings.Builder }

// add writes a verdict in one line, without what is zero.
func (s *verdicts) add(t *testing.T, name string, v loadtest.Verdict) {
	t.Helper()
	line, err := json.Marshal(said(inJSON(t, v)))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(s, "%s: %s\n", name, line)
}

// said returns a value of JSON without what is zero in it, or nil.
func said(value any) any {
	switch x := value.(type) {
	case map[string]any:
		for name := range x {
			if x[name] = said(x[name]); x[name] == nil {
				delete(x, name)
			}
		}
		if len(x) > 0 {
			return x
		}
	case []any:
		for i := range x {
			x[i] = said(x[i])
		}
		if len(x) > 0 {
			return x
		}
	case string:
		if x != "" {
			return x
		}
	case float64:
		if x != 0 {
			return x
		}
	case bool:
		if x {
			return x
		}
	}
	return nil
}

// compare compares all verdicts with those that are kept.
func (s *verdicts) compare(t *testing.T, name string) {
	t.Helper()
	golden.Compare(t, filepath.Join("testdata", name+".txt"), s.String(), *update)
}

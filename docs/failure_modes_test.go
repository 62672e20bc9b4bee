package docs_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"example.com/stock/lab"
	"example.com/stock/lab/report"
	"example.com/stock/lab/scenario"
)

const (
	matrix = "failure-modes.md"
	kept   = "failure-modes.json"
)

// catalogue returns the scenarios of the lab.
func catalogue(t *testing.T) []lab.Scenario {
	t.Helper()
	list, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func words(t *testing.T) []report.Word {
	t.Helper()
	text, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	list, err := report.ReadWords(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", kept, err)
	}
	return list
}

// The stored matrix has a word for every case of the catalogue and for no other, and it has no contradiction. make lab
// checks that a run says the same.
func TestMatrixFitsTheCatalogue(t *testing.T) {
	list := words(t)
	for _, wrong := range (report.Matrix{Scenarios: catalogue(t)}).Stale(list) {
		t.Error(wrong)
	}
	text, err := os.ReadFile(matrix)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range list {
		line := "</a>" + w.Case + ": "
		_, after, ok := strings.Cut(string(text), `<a id="`+report.Anchor(w.Scenario, w.Case)+`">`+line)
		if !ok || !strings.HasPrefix(strings.TrimPrefix(after, "**"), string(w.Observed)) {
			t.Errorf("%s does not say %s of %s: %s: run make lab-matrix", matrix, w.Observed, w.Scenario, w.Case)
		}
	}
	for _, s := range catalogue(t) {
		for _, want := range []string{s.Title.EN, s.Title.ZH, s.Setup.EN, s.Forced.EN, s.Why.EN, s.Fix.EN, s.Fix.ZH} {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s does not have %q of %s: run make lab-matrix", matrix, want, s.Name)
			}
		}
	}
}

package docs_test

import (
	"strings"
	"testing"

	"example.com/stock/lab/report"
	"example.com/stock/lab/scenario"
)

// words are the stored outcomes of the lab.
func words(t *testing.T) []report.Word {
	t.Helper()
	list, err := report.ReadWords(strings.NewReader(document(t, "docs/failure-modes.json")))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// The stored matrix has a word for every case of the catalogue and for no other, and it has no contradiction. make lab
// checks that a run says the same.
func TestMatrixFitsTheCatalogue(t *testing.T) {
	scenarios, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range (report.Matrix{Scenarios: scenarios}).Stale(words(t)) {
		t.Error(wrong)
	}
	text := document(t, "docs/failure-modes.md")
	for _, s := range scenarios {
		if !strings.Contains(text, `<a id="`+s.Name+`"></a>`+s.Title.EN+"<br>"+s.Title.ZH) {
			t.Errorf("failure-modes.md has no row for %s: run make lab-matrix", s.Name)
		}
	}
}

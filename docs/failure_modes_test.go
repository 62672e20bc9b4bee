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
	for _, s := range catalogue(t) {
		if !strings.Contains(string(text), `<a id="`+s.Name+`"></a>`+s.Title.EN+"<br>"+s.Title.ZH) {
			t.Errorf("%s has no row for %s: run make lab-matrix", matrix, s.Name)
		}
	}
}

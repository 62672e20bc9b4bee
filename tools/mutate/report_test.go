package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The page lists what the tables list.
func TestReport(t *testing.T) {
	all, err := readTables("../..")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "mutation.md"))
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != report(all, sampleOf(string(page))) {
		t.Error("docs/mutation.md is not what the tables say: make mutate ARGS='--resume --report docs/mutation.md'")
	}
}

package main

import (
	"os"
	"strings"
	"testing"
)

// The documents say of the strategies what the program says.
func TestDocumentsShowTheCatalogue(t *testing.T) {
	for file, args := range map[string][]string{
		"../../README.md":                {"strategies", "--markdown", "--short"},
		"../../README.zh-CN.md":          {"strategies", "--markdown", "--short", "--lang", "zh"},
		"../../docs/strategies.md":       {"strategies", "--markdown"},
		"../../docs/strategies.zh-CN.md": {"strategies", "--markdown", "--lang", "zh"},
	} {
		want, _, err := run(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(string(text), "<!-- strategies -->\n")
		got, _, _ := strings.Cut(after, "<!-- /strategies -->")
		if got != want {
			t.Errorf("%s does not show the catalogue as it is; run docs/refresh strategies", file)
		}
	}
}

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	elsewhereRow = regexp.MustCompile(`(?m)^\| .* \|$`)
	namedTest    = regexp.MustCompile("`([a-z/]+)\\.((?:Test|Fuzz)[A-Za-z0-9]+)`")
)

// Every failure that is no scenario names tests that there are, or says that nothing covers it.
func TestModesElsewhereNameTheirTests(t *testing.T) {
	text, err := os.ReadFile("modes-elsewhere.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := elsewhereRow.FindAllString(string(text), -1)
	if len(rows) < 5 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows[1:] {
		if strings.HasPrefix(row, "|---") {
			continue
		}
		tests := namedTest.FindAllStringSubmatch(row, -1)
		if len(tests) == 0 && !strings.Contains(row, "**not covered**") {
			t.Errorf("it names no test, and does not say that it is not covered: %s", row)
		}
		for _, m := range tests {
			files, err := filepath.Glob(filepath.Join("..", m[1], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, file := range files {
				code, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				found = found || strings.Contains(string(code), "\nfunc "+m[2]+"(")
			}
			if !found {
				t.Errorf("there is no %s in %s: %s", m[2], m[1], row)
			}
		}
	}
}

package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
			if !testExists(t, m[1], m[2]) {
				t.Errorf("there is no %s in %s: %s", m[2], m[1], row)
			}
		}
	}
}

// testExists reports whether a package has a test of this name.
func testExists(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(code), "\nfunc "+name+"(")
	})
}

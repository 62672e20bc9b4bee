package report

import (
	"testing"

	"example.com/stock/internal/words/wordstest"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheReportsHaveTheirTexts(t *testing.T) {
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{
		"say": {}, "Say": {}, "Error": {}, "list": {At: 1, Bare: true},
		"count": {Under: []string{"count."}, Bare: true},
		"part":  {Under: []string{"progress."}}, "note": {Under: []string{"note."}},
		"line": {Under: []string{"label."}, Bare: true}, "left": {At: 1, Under: []string{"label."}, Bare: true},
		"quantiles": {Under: []string{"label."}, Bare: true},
	}, "column.", "label.", "way.", "op.",
		"checkout.", "summary.", "promised.", "report.sum", "report.sum-and-versions", "table.",
		"note.thinned", "note.thinned-around", "inspection.sum-and-orders")
}

// No sentence stands in the code.
func TestTheReportsSayNothingElse(t *testing.T) {
	wordstest.Literals(t, wordstest.Allowed{
		Literals: map[string]string{"%T is no number to show": "a mistake in a template, which a test finds"},
	})
}

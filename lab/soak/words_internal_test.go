package soak

import (
	"testing"

	"example.com/stock/internal/words/wordstest"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheSoakHasItsTexts(t *testing.T) {
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{"say": {}, "line": {}}, "kind.", "fault.", "outage.")
}

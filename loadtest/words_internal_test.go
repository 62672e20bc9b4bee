package loadtest

import (
	"testing"

	"example.com/stock/words/wordstest"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheJudgeHasItsTexts(t *testing.T) {
	speakers := map[string]wordstest.Speaker{"say": {}, "Say": {}, "Error": {}}
	for name, under := range map[string][]string{
		"note": {"note."}, "warn": {"warning."}, "bad": {"threshold.", "plan."}, "fail": {"client."},
	} {
		speakers[name] = wordstest.Speaker{Under: under}
	}
	speakers["quote"] = wordstest.Speaker{Under: []string{"figure."}, Bare: true}
	speakers["because"] = wordstest.Speaker{At: 1, Under: []string{"because."}}
	speakers["wrong"] = wordstest.Speaker{At: 1, Under: []string{"plan."}}
	wordstest.Catalogue(t, phrases, speakers, "load.arrivals-poisson", "load.arrivals-even", "damage.")
}

package checkout

import (
	"testing"

	"example.com/stock/internal/words/wordstest"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheJudgeOfCheckoutsHasItsTexts(t *testing.T) {
	found := []string{"found."}
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{
		"say": {}, "Say": {}, "Error": {}, "wrong": {At: 1, Under: []string{"plan."}},
		"tell": {Under: []string{"phase."}, Bare: true}, "fail": {At: 1, Under: found}, "soon": {At: 1, Under: found},
		"note": {At: 1, Under: found},
	}, "check.")
}

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

// No sentence stands in the code but in what is recorded, which is the same for all readers of a history.
func TestTheJudgeOfCheckoutsSaysNothingElse(t *testing.T) {
	const recorded = "it is written to the history as the error of a request"
	wordstest.Literals(t, wordstest.Allowed{Files: map[string]string{
		"shop.go":    recorded,
		"visit.go":   recorded,
		"events.go":  "it names what is wrong with an entry of a stream, for operators",
		"history.go": "the errors of a file that a program wrote and another spoilt",
		"plan.go":    "a command",
		"run.go":     "an error about the service, for operators",
	}})
}

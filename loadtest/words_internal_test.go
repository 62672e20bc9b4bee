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

// No sentence stands in the code but in what is recorded, which is the same for all readers of a history.
func TestTheJudgeSaysNothingElse(t *testing.T) {
	const recorded = "it is written to the history as the error of a request, or names what a server did"
	wordstest.Literals(t, wordstest.Allowed{
		Files: map[string]string{
			"attack.go":  recorded,
			"client.go":  recorded,
			"history.go": "the errors of a file that a program wrote and another spoilt",
			"reply.go":   "the errors of a file that a program wrote and another spoilt",
			"linear.go":  "porcupine's picture has English words of its own",
		},
		Literals: map[string]string{"wait for the stock to be at rest: %w": recorded},
	})
}

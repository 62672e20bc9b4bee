package report

import (
	"slices"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// commands says what became of each command of a run, and whether the service oversells when they run.
func commands(r *loadtest.Result) []words.Text {
	name := func(o string) words.Text { return phrases.Say("label." + outcomeKey(loadtest.Outcome(o))) }
	lost := slices.ContainsFunc(r.Records, func(rec loadtest.Record) bool { return rec.Problem == loadtest.DataLost })
	return aftermath(r.Ran, loadtest.Outcomes(), name,
		loadtest.WhenItHappens(r.Verdict.Finding, r.Verdict.OversoldUnits, lost))
}

// CheckoutCommands says what became of each command of a checkout, and whether the service oversells when they run.
func CheckoutCommands(r *checkout.Result) []words.Text {
	name := func(o string) words.Text { return phrases.Say("checkout.outcome-" + o) }
	return aftermath(r.Ran, checkout.Outcomes(), name, loadtest.WhenItHappens(r.Verdict.Finding, 0, false))
}

func aftermath[O ~string](
	ran []loadtest.Ran, outcomes []O, name func(string) words.Text, answer words.Text,
) (list []words.Text) {
	var keys []string
	for _, o := range outcomes {
		keys = append(keys, string(o))
	}
	happened := false
	for i := range ran {
		list = append(list, ran[i].Said(keys, name))
		happened = happened || !ran[i].StartedAt.IsZero()
	}
	if happened {
		list = append(list, answer)
	}
	return list
}

// startsOf returns the starts of commands, in milliseconds after start.
func startsOf(ran []loadtest.Ran, start time.Time) (list []float64) {
	for i := range ran {
		if at := ran[i].StartedAt; !at.IsZero() {
			list = append(list, float64(at.Sub(start))/float64(time.Millisecond))
		}
	}
	return list
}

// said says texts in the language of the reader.
func (v voice) said(texts []words.Text) (list []string) {
	for _, text := range texts {
		list = append(list, v.in(text))
	}
	return list
}

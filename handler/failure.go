package handler

import (
	"cmp"

	"example.com/stock/internal/words"
)

// Failures returns a func that reports whether an error is a failure of the service or of its servers. What is wrong
// with a request, what the stock does not allow, and what is refused under load are no failures.
func Failures() func(error) bool {
	b := &Base{problems: table(Crowded{})}
	return func(err error) bool {
		switch b.Problem(err) {
		case "internal", "outcome_unknown", "backend_down", "store_full":
			return true
		}
		return false
	}
}

// Why returns why a backend cannot be used. Its Chinese text is the same as in the problem of a request.
func Why(err error) words.Text {
	text := words.Of(err, Said)
	text.ZH = cmp.Or(explainServer(err).detail.ZH, text.ZH)
	return text
}

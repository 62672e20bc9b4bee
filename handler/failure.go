package handler

import (
	"cmp"

	"example.com/stock/internal/words"
)

// Why returns why a backend cannot be used. Its Chinese text is the same as in the problem of a request.
func Why(err error) words.Text {
	text := words.Of(err, Said)
	text.ZH = cmp.Or(explainServer(err).detail.ZH, text.ZH)
	return text
}

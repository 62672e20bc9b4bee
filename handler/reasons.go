package handler

import (
	"cmp"

	"example.com/stock/internal/words"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// Said returns the text of an error of the service or of a lock in both languages. ok is false if the error has no
// code in the catalogue.
func Said(err error) (text words.Text, ok bool) {
	switch err := err.(type) {
	case *service.InvalidError:
		return phrases.Say("invalid.detail", "field", err.Field, "reason", Reason(err)), true
	case *driver.DownError:
		return phrases.Say("backend_down.detail", "server", err.Server, "reason", down(err)), true
	}
	return text, false
}

// Reason returns why a field is invalid, without the field's name.
func Reason(err *service.InvalidError) words.Text {
	return phrases.Say("reason."+err.Reason, err.Values...)
}

func down(err *driver.DownError) words.Text { return phrases.Say("down."+err.Reason, err.Values...) }

// reasonOf returns why a backend cannot be used. Its Chinese text is the same as in the problem of a request.
func reasonOf(err error) words.Text {
	text := words.Of(err, Said)
	text.ZH = cmp.Or(explainServer(err).detail.ZH, text.ZH)
	return text
}

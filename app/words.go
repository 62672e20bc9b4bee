package app

import (
	"embed"
	"errors"

	"example.com/stock/handler"
	"example.com/stock/internal/words"
	"example.com/stock/service"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// Said returns the text of an error of the service or of a lock, in both languages. ok is false for any other error.
func Said(err error) (text words.Text, ok bool) { return handler.Said(err) }

// explained returns an InvalidError of the domain in both languages, with or without the name of the field.
func explained(err error, field bool) error {
	var invalid *service.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	text := handler.Reason(invalid)
	if field {
		text, _ = handler.Said(invalid)
	}
	return &words.Error{Text: text}
}

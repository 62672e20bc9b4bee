package app

import (
	"errors"

	"example.com/stock/handler"
	"example.com/stock/internal/words"
	"example.com/stock/service"
)

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

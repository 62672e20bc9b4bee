package words

import "strings"

// An Error is an error for people. Its message, which logs and programs see, is in English.
type Error struct {
	Text
	cause error
}

func (e *Error) Error() string { return e.EN }

// Said returns the message in both languages.
func (e *Error) Said() Text { return e.Text }

// Unwrap returns the error that the message ends in, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Of returns the message of an error in both languages. What err wraps with a Said method is translated where it
// stands in the message, and so is an error that one of tell knows, which has a code and no text. What is left, such as
// the message of the network or of a server, is the same in both.
func Of(err error, tell ...func(error) (Text, bool)) Text {
	text := Same(err.Error())
	translate(&text, err, tell)
	return text
}

func translate(text *Text, err error, tell []func(error) (Text, bool)) {
	for _, known := range tell {
		if said, ok := known(err); ok {
			text.EN = strings.Replace(text.EN, err.Error(), said.EN, 1)
			text.ZH = strings.Replace(text.ZH, err.Error(), said.ZH, 1)
			return
		}
	}
	if speaker, ok := err.(interface{ Said() Text }); ok {
		said := speaker.Said()
		text.ZH = strings.Replace(text.ZH, said.EN, said.ZH, 1)
		if len(tell) == 0 {
			return
		}
	}
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		if inner := wrapper.Unwrap(); inner != nil {
			translate(text, inner, tell)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapper.Unwrap() {
			translate(text, inner, tell)
		}
	}
}

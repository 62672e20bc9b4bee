package words

import "strings"

// Of returns the message of an error in both languages, as the function of that name does; what has no Said method is
// looked up, each error that err wraps for itself.
func (f Foreign) Of(err error) Text { return Text{err.Error(), f.of(err)} }

func (f Foreign) of(err error) string {
	message := err.Error()
	speaker, spoken := err.(interface{ Said() Text })
	if spoken {
		message = speaker.Said().ZH
	}
	// What err wraps stands in the message: of a text that is said already, in the words of Of.
	inner := func(text string) string {
		for _, cause := range causes(err) {
			from := cause.Error()
			if spoken {
				from = Of(cause).ZH
			}
			text = strings.Replace(text, from, f.of(cause), 1)
		}
		return text
	}
	if _, several := err.(interface{ Unwrap() []error }); !spoken && !several { // of several, each is a sentence
		if s, values := f.find(message); values != nil {
			return s.chinese(values, inner)
		}
	}
	return inner(message)
}

func causes(err error) []error {
	switch wrapper := err.(type) {
	case interface{ Unwrap() error }:
		if cause := wrapper.Unwrap(); cause != nil {
			return []error{cause}
		}
	case interface{ Unwrap() []error }:
		return wrapper.Unwrap()
	}
	return nil
}

// Key returns the key of the text that reads as english in English, without the prefix, or "".
func (f Foreign) Key(english string) string {
	s, _ := f.find(english)
	return s.key
}

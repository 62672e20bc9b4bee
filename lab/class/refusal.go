package class

import (
	"embed"
	"encoding/json"
	"errors"
	"net/http"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

//go:embed text
var textFiles embed.FS

// phrases has the texts of the pages, and those that the wall answers with.
var phrases = words.NewPhrasebook(textFiles, "text")

// wordsJSON is what the pages read the texts from: by key, in both languages.
func wordsJSON() ([]byte, error) {
	texts, err := phrases.Texts()
	if err != nil {
		return nil, err
	}
	all := make(map[string]any, len(texts))
	for key, text := range texts {
		all[key] = both(text)
	}
	return json.Marshal(all)
}

// An InputError says what of a request to the wall is wrong, in both languages.
type InputError struct {
	Field string
	said  words.Text
}

func (e *InputError) Error() string { return e.Field + ": " + e.said.EN }

// Said returns the message in both languages, without the field, which people see by another name.
func (e *InputError) Said() words.Text { return e.said }

// wrong returns an InputError with the text reason_ and the reason, and with what is to be filled in as name, value.
func wrong(field, reason string, pairs ...any) *InputError {
	return &InputError{field, reasonText(reason, pairs...)}
}

// Labels of numbers that have limits, in the catalogue.
var labels = map[string]string{
	"stock": "units", "requests": "requests", "think_ms": "think", "rate": "rate", "seconds": "lasts",
}

// within returns an error unless a number is within its limits.
func within(field string, value, least, most int) error {
	if value >= least && value <= most {
		return nil
	}
	limits := reasonText("limits", "least", least, "most", most)
	said := words.Join([]words.Text{phrases.Say(labels[field]), limits}, words.Text{EN: ": ", ZH: "："})
	return &InputError{field, said}
}

func reasonText(reason string, pairs ...any) words.Text {
	return phrases.Say("reason_"+reason, pairs...)
}

// refuse answers with a code, and what it means in both languages: the page knows its reader's.
func refuse(w http.ResponseWriter, status int, code string) {
	refuseWith(w, status, code, reasonText(code))
}

func refuseWith(w http.ResponseWriter, status int, code string, said words.Text) {
	answer(w, status, map[string]any{"error": code, "said": both(said)})
}

// refuseFor answers with what an error says. What is no fault of the request failed behind the wall.
func refuseFor(w http.ResponseWriter, err error) {
	var input *InputError
	var problem *loadtest.Problem
	var target *loadtest.TargetError
	switch {
	case errors.As(err, &input):
		refuseWith(w, http.StatusBadRequest, input.Field, input.said)
	case errors.As(err, &problem):
		refuseWith(w, http.StatusServiceUnavailable, problem.Name(), problem.Said())
	case errors.As(err, &target): // what the network says of it helps nobody who looks at the wall
		refuseWith(w, http.StatusServiceUnavailable, "silent", reasonText("silent", "url", target.URL))
	default:
		refuseWith(w, http.StatusServiceUnavailable, "failed", words.Of(err))
	}
}

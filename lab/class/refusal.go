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

// phrases has the texts of the pages and of the wall's replies.
var phrases = words.NewPhrasebook(textFiles, "text")

// wordsJSON returns the texts for the pages, by key, in both languages.
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

func both(t words.Text) map[string]string { return map[string]string{"en": t.EN, "zh": t.ZH} }

// An InputError is the error of an invalid request to the wall, in both languages.
type InputError struct {
	Field string
	said  words.Text
}

func (e *InputError) Error() string { return e.Field + ": " + e.said.EN }

// Said returns the message in both languages, without the field, which the page labels in its own words.
func (e *InputError) Said() words.Text { return e.said }

// wrong returns an InputError with the text of key reason_<reason>. pairs are the names and values of its parameters.
func wrong(field, reason string, pairs ...any) *InputError {
	return &InputError{field, reasonText(reason, pairs...)}
}

// Keys of the labels of numbers with limits.
var labels = map[string]string{
	"stock": "stock", "requests": "requests", "think_ms": "think", "rate": "rate", "seconds": "lasts",
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

// refuse replies with a code and its text in both languages, of which the page shows one.
func refuse(w http.ResponseWriter, status int, code string) {
	refuseWith(w, status, code, reasonText(code))
}

func refuseWith(w http.ResponseWriter, status int, code string, said words.Text) {
	answer(w, status, map[string]any{"error": code, "said": both(said)})
}

// refuseFor replies with an error: an InputError is the client's fault, any other error the wall's.
func refuseFor(w http.ResponseWriter, err error) {
	var input *InputError
	var problem *loadtest.Problem
	var target *loadtest.TargetError
	switch {
	case errors.As(err, &input):
		refuseWith(w, http.StatusBadRequest, input.Field, input.said)
	case errors.As(err, &problem):
		refuseWith(w, http.StatusServiceUnavailable, problem.Name(), problem.Said())
	case errors.As(err, &target): // the text of a network error does not help the wall's users
		refuseWith(w, http.StatusServiceUnavailable, "silent", reasonText("silent", "url", target.URL))
	default:
		refuseWith(w, http.StatusServiceUnavailable, "failed", words.Of(err))
	}
}

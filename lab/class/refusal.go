package class

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// An InputError says what of a request to the wall is wrong, in both languages.
type InputError struct {
	Field string
	said  words.Text
}

func (e *InputError) Error() string { return e.Field + ": " + e.said.EN }

// Said returns the message in both languages, without the field, which people see by another name.
func (e *InputError) Said() words.Text { return e.said }

// wrong returns an InputError with the text reason_ and the reason, and with what is to be filled in as name, value.
func wrong(field, reason string, pairs ...string) *InputError {
	return &InputError{field, reasonText(reason, pairs...)}
}

// Labels of numbers that have limits, in words.json.
var labels = map[string]string{
	"stock": "units", "requests": "requests", "think_ms": "think", "rate": "rate", "seconds": "lasts",
}

// within returns an error unless a number is within its limits.
func within(field string, value, least, most int) error {
	if value >= least && value <= most {
		return nil
	}
	what := pageTexts()[labels[field]]
	limits := reasonText("limits", "least", strconv.Itoa(least), "most", strconv.Itoa(most))
	return &InputError{field, words.Join([]words.Text{what, limits}, words.Text{EN: ": ", ZH: "："})}
}

// reasonText returns a reason with its values filled in. One that has no text is shown as its name, which a test finds.
func reasonText(reason string, pairs ...string) words.Text {
	text, ok := pageTexts()["reason_"+reason]
	if !ok {
		return words.Same(reason)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		hole := "{" + pairs[i] + "}"
		text.EN, text.ZH = strings.ReplaceAll(text.EN, hole, pairs[i+1]), strings.ReplaceAll(text.ZH, hole, pairs[i+1])
	}
	return text
}

// pageTexts are those texts of the pages that have one form in English.
var pageTexts = sync.OnceValue(func() map[string]words.Text {
	var all map[string]struct {
		EN any
		ZH string
	}
	texts := make(map[string]words.Text)
	content, err := fs.ReadFile(pageFiles(), "words.json")
	if err != nil || json.Unmarshal(content, &all) != nil {
		return texts // a test reads the file, too, and says what is wrong
	}
	for key, t := range all {
		if english, ok := t.EN.(string); ok {
			texts[key] = words.Text{EN: english, ZH: t.ZH}
		}
	}
	return texts
})

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

// Package words keeps what the program says to people in English and in Chinese: catalogues of texts, errors that read
// in both languages, and the choice between the two.
//
// A package that speaks has a folder text with en.yaml and zh.yaml, and a [Phrasebook] of it. What programs read is the
// same in both languages and is in no catalogue: JSON, names of metrics, flags, codes of problems, the log.
package words

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// The languages.
const (
	English = "en"
	Chinese = "zh"
)

// A Text is a text in two languages.
type Text struct{ EN, ZH string }

// In returns the text in language "zh", or in English.
func (t Text) In(lang string) string {
	if lang == Chinese {
		return t.ZH
	}
	return t.EN
}

// String returns the text in English.
func (t Text) String() string { return t.EN }

// Same returns a text that reads the same in both languages: a name, a statement, a value of a server.
func Same(text string) Text { return Text{text, text} }

// Join returns the texts with a separator between them.
func Join(texts []Text, separator Text) Text {
	var joined Text
	for i, t := range texts {
		if i > 0 {
			joined.EN += separator.EN
			joined.ZH += separator.ZH
		}
		joined.EN += t.EN
		joined.ZH += t.ZH
	}
	return joined
}

// Texts is a catalogue of texts by key.
//
// A text may have placeholders, such as "{who} asks {app}". In English, one with a colon chooses between two words by a
// number: "{n} {n:unit|units}" is "1 unit" or "2 units". Chinese has one form for both.
//
// A catalogue is a folder with a file for each language, en.yaml and zh.yaml. What a developer reads, such as the
// log, is no text of a catalogue: it is in English only and stays in the code.
type Texts map[string]Text

// ReadTexts reads the catalogue in dir. Nested keys are joined with dots: "outcomes.safe.means". The error names each
// key that only one language has, and each text whose placeholders are not the same in both.
func ReadTexts(files fs.FS, dir string) (Texts, error) {
	english, err := readLanguage(files, path.Join(dir, "en.yaml"))
	if err != nil {
		return nil, err
	}
	chinese, err := readLanguage(files, path.Join(dir, "zh.yaml"))
	if err != nil {
		return nil, err
	}
	var wrong []error
	texts := make(Texts)
	for _, key := range slices.Sorted(maps.Keys(english)) {
		zh, ok := chinese[key]
		if !ok {
			wrong = append(wrong, fmt.Errorf("%s/zh.yaml: there is no %s", dir, key))
			continue
		}
		en := english[key]
		if !slices.Equal(Placeholders(en), Placeholders(zh)) {
			wrong = append(wrong, fmt.Errorf("%s: %s has the placeholders %v in English and %v in Chinese",
				dir, key, Placeholders(en), Placeholders(zh)))
		}
		texts[key] = Text{en, zh}
	}
	for _, key := range slices.Sorted(maps.Keys(chinese)) {
		if _, ok := english[key]; !ok {
			wrong = append(wrong, fmt.Errorf("%s/en.yaml: there is no %s", dir, key))
		}
	}
	return texts, errors.Join(wrong...)
}

func readLanguage(files fs.FS, name string) (map[string]string, error) {
	content, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := yaml.Unmarshal(content, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	flat := make(map[string]string)
	if err := flatten(flat, "", tree); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return flat, nil
}

func flatten(into map[string]string, prefix string, tree map[string]any) error {
	for key, value := range tree {
		switch value := value.(type) {
		case string:
			into[prefix+key] = value
		case map[string]any:
			if err := flatten(into, prefix+key+".", value); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s%s must be a text, is %v", prefix, key, value)
		}
	}
	return nil
}

// A placeholder is {name}, or {name:one|several}, which chooses between two words by a number.
type placeholder struct {
	name         string
	chooses      bool
	one, several string
}

// cutPlaceholder cuts a text at its first placeholder. Other braces are text. It is written out, and no regular
// expression, because a refusal says three texts: with one, they were a tenth of what it cost.
func cutPlaceholder(text string) (before string, p placeholder, after string, found bool) {
	for at := 0; ; at++ {
		open := strings.IndexByte(text[at:], '{')
		if open < 0 {
			return text, placeholder{}, "", false
		}
		at += open
		inner, after, closed := strings.Cut(text[at+1:], "}")
		if !closed {
			return text, placeholder{}, "", false
		}
		if p, ok := parsePlaceholder(inner); ok {
			return text[:at], p, after, true
		}
	}
}

// parsePlaceholder reads what is between the braces.
func parsePlaceholder(inner string) (p placeholder, ok bool) {
	var choice string
	p.name, choice, p.chooses = strings.Cut(inner, ":")
	if p.name == "" || strings.Trim(p.name, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return p, false
	}
	if !p.chooses {
		return p, true
	}
	p.one, p.several, ok = strings.Cut(choice, "|")
	return p, ok && !strings.ContainsAny(p.one+p.several, "{|")
}

// Placeholders returns the names of the placeholders of a text in braces, each once and sorted.
func Placeholders(text string) []string {
	var names []string
	for {
		_, p, after, found := cutPlaceholder(text)
		if !found {
			slices.Sort(names)
			return slices.Compact(names)
		}
		names, text = append(names, "{"+p.name+"}"), after
	}
}

// Under returns the texts whose keys begin with prefix and a dot, without that beginning.
func (t Texts) Under(prefix string) Texts {
	part := make(Texts)
	for key, text := range t {
		if rest, ok := strings.CutPrefix(key, prefix+"."); ok {
			part[rest] = text
		}
	}
	return part
}

// Say returns the text of a key with its placeholders filled in. pairs are names of placeholders, each followed by its
// value. Durations are rounded to the millisecond; a Text, and an error that has one, is said in the language that it
// stands in. Other values are the same in both languages: names, numbers, and messages of servers are what a reader
// will search for.
//
// With an error, Say returns the key as the text.
func (t Texts) Say(key string, pairs ...any) (Text, error) {
	text, ok := t[key]
	if !ok {
		return Same(key), fmt.Errorf("there is no text %q", key)
	}
	if len(pairs) == 0 && !strings.Contains(text.EN, "{") {
		return text, nil // most texts: a page says thousands of them
	}
	values := make([]value, 0, 8)
	for i := 0; i+1 < len(pairs); i += 2 {
		values = append(values, value{name: fmt.Sprint(pairs[i]), Text: textOf(pairs[i+1])})
	}
	english, filled := fill(text.EN, values, English)
	if filled && len(pairs) == 2*len(values) && !slices.ContainsFunc(values, func(v value) bool { return !v.used }) {
		chinese, _ := fill(text.ZH, values, Chinese) // it has the same placeholders: see ReadTexts
		return Text{english, chinese}, nil
	}
	return Same(key), fmt.Errorf("text %q has the placeholders %v, and was given %v",
		key, Placeholders(text.EN), pairs)
}

// A value is what takes the place of the placeholder with its name.
type value struct {
	name string
	Text
	used bool
}

func textOf(value any) Text {
	switch v := value.(type) {
	case Text:
		return v
	case error:
		return Of(v)
	case time.Duration:
		return Same(v.Round(time.Millisecond).String())
	}
	return Same(fmt.Sprint(value))
}

// fill puts the values in, and marks those that it has used. filled is false if one is missing. A value that looks like
// a placeholder stays as it is.
func fill(text string, values []value, lang string) (said string, filled bool) {
	var b strings.Builder
	b.Grow(len(text) + 32)
	for filled = true; ; {
		before, p, after, found := cutPlaceholder(text)
		b.WriteString(before)
		if !found {
			return b.String(), filled
		}
		text = after
		at := slices.IndexFunc(values, func(v value) bool { return v.name == p.name })
		if at < 0 {
			filled = false
			continue
		}
		values[at].used = true
		switch word := values[at].In(lang); {
		case !p.chooses:
			b.WriteString(word)
		case word == "1":
			b.WriteString(p.one)
		default:
			b.WriteString(p.several)
		}
	}
}

// A Phrasebook is a catalogue that a package speaks from. It is read when it is first needed.
type Phrasebook struct{ read func() (Texts, error) }

// NewPhrasebook returns the phrasebook of the catalogue in dir.
func NewPhrasebook(files fs.FS, dir string) Phrasebook {
	return Phrasebook{sync.OnceValues(func() (Texts, error) { return ReadTexts(files, dir) })}
}

// Check returns what is wrong with the catalogue. Entry points that can return an error call it first.
func (p Phrasebook) Check() error {
	_, err := p.read()
	return err
}

// Texts returns the catalogue.
func (p Phrasebook) Texts() (Texts, error) { return p.read() }

// Say returns a text. For a missing text it returns the error's message; tests check that no text is missing.
func (p Phrasebook) Say(key string, pairs ...any) Text {
	texts, err := p.read()
	if err != nil {
		return Same(err.Error())
	}
	text, err := texts.Say(key, pairs...)
	if err != nil {
		return Same(err.Error())
	}
	return text
}

// Error returns a text as an error. If one of the values is an error, the new error wraps it.
func (p Phrasebook) Error(key string, pairs ...any) error {
	e := &Error{Text: p.Say(key, pairs...)}
	for i := 1; i < len(pairs); i += 2 {
		if cause, ok := pairs[i].(error); ok {
			e.cause = cause
		}
	}
	return e
}

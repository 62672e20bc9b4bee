package lab

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"
)

// A Text is a text in two languages.
type Text struct{ EN, ZH string }

// In returns the text in language "zh", or in English.
func (t Text) In(lang string) string {
	if lang == "zh" {
		return t.ZH
	}
	return t.EN
}

// String returns the text in English.
func (t Text) String() string { return t.EN }

// same returns a text that reads the same in both languages: a name, a statement, a value of a server.
func same(text string) Text { return Text{text, text} }

// Texts is a catalogue of texts by key. A text may have placeholders, such as "{who} asks {app}".
//
// A catalogue is a folder with a file for each language, en.yaml and zh.yaml. What a developer reads, such as the
// message of an error, is no text of a catalogue: it is in English only and stays in the code.
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
		if !slices.Equal(placeholders(en), placeholders(zh)) {
			wrong = append(wrong, fmt.Errorf("%s: %s has the placeholders %v in English and %v in Chinese",
				dir, key, placeholders(en), placeholders(zh)))
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

var placeholder = regexp.MustCompile(`\{[a-z_]+\}`)

// placeholders returns the placeholders of a text, each once and sorted.
func placeholders(text string) []string {
	found := placeholder.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
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
// value. Durations are rounded to the millisecond, and a Text is said in the language that it stands in. Other values
// are the same in both languages: names, numbers, and messages of servers are what a reader will search for.
//
// With an error, Say returns the key as the text.
func (t Texts) Say(key string, pairs ...any) (Text, error) {
	text, ok := t[key]
	if !ok {
		return same(key), fmt.Errorf("there is no text %q", key)
	}
	if len(pairs) == 0 && !strings.Contains(text.EN, "{") {
		return text, nil // most texts: a page says thousands of them
	}
	var english, chinese []string
	for i := 0; i+1 < len(pairs); i += 2 {
		name := fmt.Sprintf("{%v}", pairs[i])
		value := same(fmt.Sprint(pairs[i+1]))
		switch v := pairs[i+1].(type) {
		case Text:
			value = v
		case time.Duration:
			value = same(v.Round(time.Millisecond).String())
		}
		english = append(english, name, value.EN)
		chinese = append(chinese, name, value.ZH)
	}
	if want := placeholders(text.EN); len(pairs) != 2*len(want) || slices.ContainsFunc(want, func(name string) bool {
		return !slices.Contains(english, name)
	}) {
		return same(key), fmt.Errorf("text %q has the placeholders %v, and was given %v", key, want, pairs)
	}
	return Text{strings.NewReplacer(english...).Replace(text.EN), strings.NewReplacer(chinese...).Replace(text.ZH)}, nil
}

// A Phrasebook is a catalogue that a package uses without a scenario. It is read when it is first needed.
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

// Say returns a text. For a missing text it returns the error's message; tests check that no text is missing.
func (p Phrasebook) Say(key string, pairs ...any) Text {
	texts, err := p.read()
	if err != nil {
		return same(err.Error())
	}
	text, err := texts.Say(key, pairs...)
	if err != nil {
		return same(err.Error())
	}
	return text
}

//go:embed text
var textFiles embed.FS

var phrases = NewPhrasebook(textFiles, "text")

// say returns a text of this package.
func say(key string, pairs ...any) Text { return phrases.Say(key, pairs...) }

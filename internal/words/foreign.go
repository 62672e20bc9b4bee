package words

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Foreign is the part of a catalogue that says in both languages what code says that knows only English: a library, or
// a package that must not know what people are. The Chinese is found by the English, with its values.
type Foreign struct{ sentences func() []sentence }

// A sentence is the English of a text as a pattern, and what to say instead.
type sentence struct {
	key     string
	english *regexp.Regexp
	names   []string // of the placeholders, in the order of the groups
	text    Text
}

// Foreign returns the texts whose keys begin with prefix and a dot, or with "" all.
func (p Phrasebook) Foreign(prefix string) Foreign {
	return Foreign{sync.OnceValue(func() []sentence {
		texts, err := p.read()
		if err != nil {
			return nil // Check says why
		}
		var list []sentence
		if prefix != "" {
			texts = texts.Under(prefix)
		}
		for key, text := range texts {
			var names []string
			pattern := quotedPlaceholder.ReplaceAllStringFunc(regexp.QuoteMeta(text.EN), func(found string) string {
				names = append(names, strings.Trim(found, `\{}`))
				return "(.*?)"
			})
			list = append(list, sentence{key, regexp.MustCompile("(?s)^" + pattern + "$"), names, text})
		}
		slices.SortFunc(list, func(a, b sentence) int { // the most exact first
			return cmp.Or(len(b.english.String())-len(a.english.String()), cmp.Compare(a.key, b.key))
		})
		return list
	})}
}

// quotedPlaceholder matches {name} as QuoteMeta has it.
var quotedPlaceholder = regexp.MustCompile(`\\\{[a-z_]+\\\}`)

// Text returns what reads as english in English in both languages, and its values, too. What is not in the catalogue
// is the same in both.
func (f Foreign) Text(english string) Text { return Text{english, f.chinese(english)} }

func (f Foreign) chinese(english string) string {
	s, values := f.find(english)
	if values == nil {
		return english
	}
	return s.chinese(values, func(part string) string {
		if part == english {
			return part
		}
		return f.chinese(part)
	})
}

// chinese returns the Chinese text with what the pattern found, each value after a change.
func (s sentence) chinese(found []string, change func(part string) string) string {
	values := make([]value, len(s.names))
	for i, name := range s.names {
		values[i] = value{name: name, Text: Same(change(found[i+1]))}
	}
	said, _ := fill(s.text.ZH, values, Chinese)
	return said
}

func (f Foreign) find(english string) (s sentence, values []string) {
	for _, s := range f.sentences() {
		if values := s.english.FindStringSubmatch(english); values != nil {
			return s, values
		}
	}
	return sentence{}, nil
}

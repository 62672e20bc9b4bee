package words

import (
	"cmp"
	"slices"
	"strings"
)

// Read returns in both languages what was said in English from the texts of t. It is for records, which keep a text in
// English alone. A value that was itself said from inside is translated, too. What none of the texts says is the same
// in both languages.
func (t Texts) Read(english string, inside Texts) Text {
	texts := make([]Text, 0, len(t))
	for _, text := range t {
		texts = append(texts, text)
	}
	slices.SortFunc(texts, func(a, b Text) int { // of two that fit, the one that says more itself
		return cmp.Or(len(b.EN)-len(a.EN), strings.Compare(a.EN, b.EN))
	})
	for _, text := range texts {
		values, ok := text.values(english)
		if !ok {
			continue
		}
		for i, v := range values {
			if v.EN != english {
				values[i].Text = inside.Read(v.EN, inside)
			}
		}
		chinese, _ := fill(text.ZH, values, Chinese)
		return Text{english, chinese}
	}
	return Same(english)
}

// values returns what stands in the place of the placeholders of t, if english is t with such values.
func (t Text) values(english string) (values []value, ok bool) {
	for pattern := t.EN; ; {
		before, p, after, more := cutPlaceholder(pattern)
		rest, ok := strings.CutPrefix(english, before)
		if !ok || !more {
			return values, ok && rest == ""
		}
		next, _, _, another := cutPlaceholder(after)
		end := strings.Index(rest, next)
		if !another {
			end = len(rest) - len(next)
			ok = strings.HasSuffix(rest, next)
		}
		if end < 0 || !ok {
			return nil, false
		}
		values = append(values, value{name: p.name, Text: Same(rest[:end])})
		english, pattern = rest[end:], after
	}
}

package report

import (
	"embed"
	"fmt"
	"regexp"
	"strings"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// millis formats milliseconds with three digits and the unit: 0.12 ms, 12.3 ms, 1.23 s.
func millis(ms float64) string {
	text := loadtest.Millis(ms)
	unit := strings.IndexAny(text, "ms")
	return text[:unit] + " " + text[unit:]
}

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// A voice says the texts of this package in one language.
type voice string

func (v voice) say(key string, pairs ...any) string { return phrases.Say(key, pairs...).In(string(v)) }

// in says a text of another package.
func (v voice) in(t words.Text) string { return t.In(string(v)) }

// count returns n with its noun, and commas between thousands: "1 unit", "12,000 units".
func (v voice) count(noun string, n int64) string {
	return phrases.Say("count."+noun, "n", thousands(n)).In(string(v))
}

// list joins names with a text of the catalogue.
func list(names []string, between string) words.Text {
	texts := make([]words.Text, len(names))
	for i, name := range names {
		texts[i] = words.Same(name)
	}
	return words.Join(texts, phrases.Say(between))
}

// outcomeKey returns the name of an outcome in the catalogue.
func outcomeKey(o loadtest.Outcome) string { return strings.ReplaceAll(string(o), "_", "-") }

// outcome returns an outcome in words.
func (v voice) outcome(o loadtest.Outcome) string { return v.say("label." + outcomeKey(o)) }

// FileName returns the name of a strategy as a part of the name of a file. A service, or a history, may give a strategy
// any name, such as a path.
func FileName(strategy string) string {
	const most = 100 // bytes
	name := regexp.MustCompile(`[^\p{L}\p{N}.-]+|^[.-]+`).ReplaceAllString(strategy, "_")
	return strings.ToValidUTF8(name[:min(len(name), most)], "")
}

// thousands separates groups of three digits from 10,000 on.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	if n < 10_000 && n > -10_000 {
		return text
	}
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	var b strings.Builder
	for i, digit := range text {
		if i > 0 && (len(text)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

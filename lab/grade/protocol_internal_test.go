package grade

import (
	"strings"
	"testing"
	"unicode"

	"example.com/stock/internal/words/wordstest"
)

// Every text is there in both languages, is given its values, and is said.
func TestTheGraderHasItsTexts(t *testing.T) {
	made := []string{"grades.", "why."}
	for _, s := range Scenarios() {
		made = append(made, "scenarios."+s.Name+".title", "scenarios."+s.Name+".forced")
	}
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{"say": {}, "Error": {}}, made...)
}

// No line makes a parser panic. What is accepted, and what is refused, is shown bounded and printable.
func FuzzReply(f *testing.F) {
	for _, line := range []string{
		"ok t", "ok t 7\r", "busy", "error no\tconnection", "ok", "", "OK t", "ok t 18446744073709551616", "ok \x00",
		"ok " + strings.Repeat("x", 300), "好 t",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, sent := range []request{acquiring("k", 1), releasing("k", "t")} {
			r, err := sent.parse(sent.line(), line)
			said := r.String()
			if err != nil {
				said = err.Error()
			}
			if len(said) > 1024 || strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%q is shown as %q", line, said)
			}
			if err == nil && r.ok() && len(r.token) > maxToken {
				t.Errorf("a token of %d bytes", len(r.token))
			}
		}
	})
}

package mapping

import (
	"fmt"
	"slices"
	"testing"
)

// Whatever a place and a reply are, there are as many values at the place as it says, and a pointer has no filter.
func FuzzPlace(f *testing.F) {
	for _, text := range []string{"a.b", "a[b=c].d", "[a.b={{x}}][c=1]", "/a~1b/0", "header:X", ".", "a..", "a[b"} {
		f.Add(text, `{"a":[{"b":"c","d":1},{"b":1.0}],"a/b":[2]}`, "c")
	}
	f.Fuzz(func(t *testing.T, text, reply, value string) {
		p, err := parsePlace(text, []string{"x"})
		if err != nil {
			return
		}
		s := source{doc: document([]byte(reply)), values: values{"x": value}}
		found := p.all(s)
		_, only := p.of(s)
		if only != (len(found) == 1) || len(found) > 1 && !p.filtered() || p.header != "" && len(found) > 0 ||
			text != "" && text[0] == '/' && p.filtered() {
			t.Errorf("%q in %q: %v", text, reply, found)
		}
		_, _ = p.whole(s)
	})
}

// Two rules that are told apart never match the same reply, save when only the reply can tell.
func FuzzRules(f *testing.F) {
	for _, reply := range []string{`{"a":"x"}`, `{"a":null}`, `{}`, `{"a":1.0}`, `{"a":[]}`, `{"a":"true"}`} {
		f.Add("equals: [x, null]", "exists: false", reply)
		f.Add("not: x", "contains: x", reply)
		f.Add("equals: 1", "not: [1, x]", reply)
	}
	f.Fuzz(func(t *testing.T, one, other, reply string) {
		file, err := Parse(fmt.Appendf(nil, "read: {path: /a, quantity: n}\ndeduct:\n  path: /b\n"+
			"  accepted: {field: a, %s}\n  sold_out: {field: a, %s}", one, other))
		if err != nil {
			return
		}
		a, b := file.deduct[0].accepted, file.deduct[0].soldOut
		if len(a) != 1 || len(b) != 1 || a[0].field.text != b[0].field.text || a[0].field.filtered() ||
			a[0].predicate == contains && b[0].predicate == contains {
			return
		}
		s := source{doc: document([]byte(reply))}
		if a.matches(200, s) && b.matches(200, s) {
			t.Errorf("%s and %s both match %s", one, other, reply)
		}
		if at, _ := a[0].field.of(s); at != nil && a[0].predicate == equals {
			text, ok := scalar(at)
			if a.matches(200, s) != (ok && slices.Contains(a[0].values, text)) && len(a[0].status) == 0 {
				t.Errorf("%s and %s", one, reply)
			}
		}
	})
}

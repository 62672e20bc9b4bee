package mapping

import "testing"

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

package class

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
	"testing"

	"example.com/stock/internal/words/wordstest"
)

// Every text that the code, a page or a scene asks for is there.
func TestWords(t *testing.T) {
	texts, err := phrases.Texts()
	if err != nil {
		t.Fatal(err)
	}
	reason := func(at int) wordstest.Speaker { return wordstest.Speaker{At: at, Under: []string{"reason_"}} }
	want := wordstest.Said(t, phrases, ".", map[string]wordstest.Speaker{
		"refuse": reason(2), "wrong": reason(1), "reasonText": reason(0), "Say": {}, "Error": {},
	})
	for _, s := range scenes() {
		want = append(want, "scene_"+s.name, "ask_"+s.name)
		for n := 1; n <= s.stops; n++ {
			want = append(want, fmt.Sprintf("stop_%s_%d", s.name, n))
		}
	}
	for _, kind := range []string{"locked", "process", "none", "free"} {
		want = append(want, "watch_own_"+kind)
	}
	for _, key := range []string{"wakes", "writes", "refused", "silent"} {
		want = append(want, "count_"+key)
	}
	asked := regexp.MustCompile(`(?:data-t|data-hint|data-label)="(\w+)"|\bt\('(\w+)'`)
	names, err := fs.Glob(pages, "page/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := pages.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range asked.FindAllStringSubmatch(string(text), -1) {
			want = append(want, strings.Join(m[1:], ""))
		}
	}
	for _, key := range want {
		if _, ok := texts[key]; !ok {
			t.Errorf("no text %q", key)
		}
	}
	keys := map[string]string{}
	for _, s := range scenes() {
		if other := keys[s.key]; other != "" || strings.Contains("frbpnvwkoiqte?123", s.key) {
			t.Errorf("%s has the key %s, which is taken %s", s.name, s.key, other)
		}
		keys[s.key] = s.name
	}
}

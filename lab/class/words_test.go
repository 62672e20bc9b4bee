package class

import (
	"encoding/json"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var hole = regexp.MustCompile(`\{\w+\}`)

// Every text is there in both languages, with the same things to fill in, and every text that a page or a scene asks
// for is there.
func TestWords(t *testing.T) {
	content, err := fs.ReadFile(pageFiles(), "words.json")
	if err != nil {
		t.Fatal(err)
	}
	var words map[string]struct {
		EN any    `json:"en"`
		ZH string `json:"zh"`
	}
	if err := json.Unmarshal(content, &words); err != nil {
		t.Fatal(err)
	}
	holes := func(text string) []string {
		found := hole.FindAllString(text, -1)
		slices.Sort(found)
		return found
	}
	for key, text := range words {
		forms, ok := text.EN.([]any)
		if !ok {
			forms = []any{text.EN}
		}
		for _, form := range forms {
			english, _ := form.(string)
			if english == "" || text.ZH == "" || !slices.Equal(holes(english), holes(text.ZH)) {
				t.Errorf("%s: %q and %q", key, english, text.ZH)
			}
		}
	}
	want := []string{}
	for _, s := range scenes() {
		want = append(want, "scene_"+s.name)
	}
	asked := regexp.MustCompile(`(?:data-t|data-hint|data-label)="(\w+)"|\bt\('(\w+)'|say\("(\w+)"`)
	pages, err := fs.Glob(pageFiles(), "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		text, err := fs.ReadFile(pageFiles(), name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range asked.FindAllStringSubmatch(string(text), -1) {
			want = append(want, strings.Join(m[1:], ""))
		}
	}
	for _, key := range want {
		if _, ok := words[key]; !ok {
			t.Errorf("no text %q", key)
		}
	}
	if len(want) < 50 {
		t.Errorf("%d texts are asked for, which cannot be all", len(want))
	}
	keys := map[string]string{}
	for _, s := range scenes() {
		if other := keys[s.key]; other != "" || strings.Contains("frbpnvwkoiqte?123", s.key) {
			t.Errorf("%s has the key %s, which is taken %s", s.name, s.key, other)
		}
		keys[s.key] = s.name
	}
}

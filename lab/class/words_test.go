package class

import (
	"io/fs"
	"regexp"
	"strings"
	"testing"
)

// Every text is there in both languages, with the same things to fill in, and every text that a page or a scene asks
// for is there.
func TestWords(t *testing.T) {
	texts, err := phrases.Texts()
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range texts {
		if text.EN == "" || text.ZH == "" {
			t.Errorf("%s: %q and %q", key, text.EN, text.ZH)
		}
	}
	want := []string{}
	for _, s := range scenes() {
		for _, part := range []string{"scene_", "ask_", "before_", "watch_", "done_", "why_"} {
			want = append(want, part+s.name)
		}
	}
	// The moments in caption.go.
	for scene, moments := range map[string]string{
		"two_buyers": "both_read a_wrote b_writes", "frozen_fenced": "frozen over b_sold awake",
		"frozen_unfenced": "frozen over b_sold awake", "killed_holder": "dead next", "redis_dies": "dead starting back",
		"same_key": "again other",
	} {
		for moment := range strings.FieldsSeq(moments) {
			want = append(want, "watch_"+scene+"_"+moment)
		}
	}
	for _, kind := range []string{"locked", "process", "none", "free"} {
		want = append(want, "before_own_"+kind, "watch_own_"+kind, "why_own_"+kind)
	}
	for _, key := range []string{"wakes", "writes", "sold_out", "refused", "late", "silent"} {
		want = append(want, "count_"+key)
	}
	asked := regexp.MustCompile(`(?:data-t|data-hint|data-label)="(\w+)"|\bt\('(\w+)'`)
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
		if _, ok := texts[key]; !ok {
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

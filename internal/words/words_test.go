package words_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"example.com/stock/internal/words"
)

// catalogueOf makes a catalogue of two files.
func catalogueOf(en, zh string) fstest.MapFS {
	return fstest.MapFS{"text/en.yaml": {Data: []byte(en)}, "text/zh.yaml": {Data: []byte(zh)}}
}

// The error of ReadTexts names the key of each mistake.
func TestReadTextsNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ name, en, zh, want string }{
		{"no Chinese", "a: {b: x, c: y}", "a: {b: x}", "text/zh.yaml: there is no a.c"},
		{"no English", "a: x", "{a: x, b: y}", "text/en.yaml: there is no b"},
		{
			"another placeholder", "a: '{who} asks'", "a: '{whom}'",
			"a has the placeholders [{who}] in English and [{whom}] in Chinese",
		},
		{"no text", "a: 1", "a: x", "text/en.yaml: a must be a text, is 1"},
		{"no YAML", "a: [", "a: x", "text/en.yaml: "},
	} {
		if _, err := words.ReadTexts(catalogueOf(row.en, row.zh), "text"); err == nil ||
			!strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
}

func TestSay(t *testing.T) {
	t.Parallel()
	texts, err := words.ReadTexts(catalogueOf(
		"{pool: '{used} of {size} in use', nodes: '{when} they have {values}', waited: 'waited {for}'}",
		"{pool: '{size} 个中 {used} 个在用', nodes: '{when}有 {values}', waited: '等了 {for}'}"), "text")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		key   string
		pairs []any
		want  words.Text
	}{
		{"pool", []any{"used", 4, "size", 5}, words.Text{"4 of 5 in use", "5 个中 4 个在用"}},
		{
			"nodes",
			[]any{"when", words.Text{"now", "现在"}, "values", []string{"{when}", "b"}},
			words.Text{"now they have [{when} b]", "现在有 [{when} b]"},
		},
		{"waited", []any{"for", 1234567 * time.Microsecond}, words.Text{"waited 1.235s", "等了 1.235s"}},
	} {
		if got, err := texts.Say(row.key, row.pairs...); err != nil || got != row.want {
			t.Errorf("%s: %q, %v, want %q", row.key, got, err, row.want)
		}
	}
	for _, row := range []struct {
		key   string
		pairs []any
	}{
		{"nothing", nil},
		{"pool", []any{"used", 4}},
		{"pool", []any{"used", 4, "length", 5}},
		{"waited", []any{"for", 1, "more", 2}},
	} {
		if got, err := texts.Say(row.key, row.pairs...); err == nil {
			t.Errorf("%s %v: %q, want an error", row.key, row.pairs, got)
		}
	}
	if under := texts.Under("poo"); len(under) != 0 {
		t.Errorf("a part of a name is no key: %v", under)
	}
}

// English has a word for one and a word for several. Chinese does without.
func TestOneAndSeveral(t *testing.T) {
	t.Parallel()
	book := words.NewPhrasebook(catalogueOf("lost: '{n} {n:unit|units} lost'", "lost: 丢失 {n} 件"), "text")
	for n, want := range map[any]words.Text{
		0: {EN: "0 units lost", ZH: "丢失 0 件"}, 1: {EN: "1 unit lost", ZH: "丢失 1 件"},
		int64(2): {EN: "2 units lost", ZH: "丢失 2 件"},
	} {
		if got := book.Say("lost", "n", n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
}

// An error for people reads in both languages wherever it is wrapped, and is still the error that it wraps.
func TestOf(t *testing.T) {
	t.Parallel()
	book := words.NewPhrasebook(catalogueOf("{down: 'the store is down: {why}', bad: 'must be {least} or more'}",
		"{down: '存储不可用：{why}', bad: '不得小于 {least}'}"), "text")
	refused := errors.New("connection refused")
	down, bad := book.Error("down", "why", refused), book.Error("bad", "least", 1)
	if !errors.Is(down, refused) {
		t.Error("the cause is lost")
	}
	for _, row := range []struct {
		err  error
		want words.Text
	}{
		{refused, words.Same("connection refused")},
		{down, words.Text{EN: "the store is down: connection refused", ZH: "存储不可用：connection refused"}},
		{fmt.Errorf("--stock: %w", bad), words.Text{EN: "--stock: must be 1 or more", ZH: "--stock: 不得小于 1"}},
		{
			errors.Join(down, fmt.Errorf("b: %w", bad)),
			words.Text{
				EN: "the store is down: connection refused\nb: must be 1 or more",
				ZH: "存储不可用：connection refused\nb: 不得小于 1",
			},
		},
	} {
		if got := words.Of(row.err); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// Programs read English.
func TestJSONIsEnglish(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(words.Text{EN: "sold out", ZH: "售罄"})
	if err != nil || string(text) != `"sold out"` {
		t.Errorf("%s, %v", text, err)
	}
	var read words.Text
	if err := json.Unmarshal(text, &read); err != nil || read != words.Same("sold out") {
		t.Errorf("%v, %v", read, err)
	}
}

func TestFromEnvironment(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		environment map[string]string
		want        string
	}{
		{nil, words.English},
		{map[string]string{"LANG": "zh_CN.UTF-8"}, words.Chinese},
		{map[string]string{"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, words.English},
		{map[string]string{"LC_ALL": "", "LC_MESSAGES": "zh", "LANG": "en_US.UTF-8"}, words.Chinese},
		{map[string]string{"STOCK_LANG": "en", "LC_ALL": "zh_TW"}, words.English},
		{map[string]string{"STOCK_LANG": "zha"}, words.English}, // Zhuang is another language
		{map[string]string{"STOCK_LANG": "fr"}, words.English},
	} {
		if got := words.FromEnvironment(func(name string) string { return row.environment[name] }); got != row.want {
			t.Errorf("%v: %s, want %s", row.environment, got, row.want)
		}
	}
}

func TestColumns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "lock": 4, "锁": 2, "丢失 2 件。": 11, "–": 1, "“a”": 3} {
		if got := words.Columns(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// What is a placeholder is also said by a regular expression, which is what it was cut out with before.
func FuzzPlaceholders(f *testing.F) {
	braces := regexp.MustCompile(`\{([a-z_]+)(?::([^{}|]*)\|([^{}|]*))?\}`)
	for _, seed := range []string{
		"", "{n} {n:unit|units} lost", "{", "{}", "{{a}}", "{a{b}",
		"{a:b}", "{a:b|c|d}", "{a:b|c}d}", "{A}{b", "{a:|}", "{a:{|}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := braces.ReplaceAllStringFunc(text, func(found string) string {
			switch m := braces.FindStringSubmatch(found); {
			case strings.Contains(found, ":"):
				return m[3]
			default:
				return "<" + m[1] + ">"
			}
		})
		var pairs []any
		for _, name := range words.Placeholders(text) {
			name = strings.Trim(name, "{}")
			pairs = append(pairs, name, "<"+name+">")
		}
		texts := words.Texts{"key": words.Same(text)}
		if got, err := texts.Say("key", pairs...); err != nil || got != words.Same(want) {
			t.Errorf("%q: %q, %v, want %q", text, got.EN, err, want)
		}
	})
}

package words_test

import (
	"strings"
	"testing"

	"example.com/stock/internal/words"
)

func TestAccept(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                words.English,
		"zh":                              words.Chinese,
		"ZH-hans-cn":                      words.Chinese,
		"zh-CN,zh;q=0.9,en;q=0.8":         words.Chinese,
		"en-US,en;q=0.9,zh-CN;q=0.8":      words.English,
		"en;q=0.8, zh":                    words.Chinese,
		"en;q=0.5 , zh ; q=0.7":           words.Chinese,
		"fr, zh;q=0.1":                    words.Chinese, // the only one of theirs that we have
		"fr, de;q=0.5":                    words.English,
		"*":                               words.English,
		"zh;q=0.5, *;q=0.4":               words.Chinese,
		"*, zh;q=0.5":                     words.English,
		"en;q=0, zh;q=0.001":              words.Chinese,
		"zh;q=0":                          words.English,
		"zh, en":                          words.Chinese, // the same quality: the first
		"en, zh":                          words.English,
		"zha":                             words.English, // Zhuang is another language
		"zh;q=abc, en;q=0.1":              words.English,
		"zh;q=1.5":                        words.English,
		"zh;q=-1":                         words.English,
		"zh;q=NaN":                        words.English,
		"zh;q=1e0":                        words.English,
		"zh;level=1":                      words.English,
		"zh;q=":                           words.English,
		";;q=1,,zh;q=0.2":                 words.Chinese,
		strings.Repeat("fr,", 100) + "zh": words.English, // nobody reads so many
	} {
		if got := words.Accept(header); got != want {
			t.Errorf("%.40q: %s, want %s", header, got, want)
		}
	}
}

// Whatever a client sends, the answer is one of the two; spaces do not change it; and a header that has no zh in it is
// never answered in Chinese.
func FuzzAccept(f *testing.F) {
	for _, seed := range []string{"", "zh", "zh-CN,zh;q=0.9,en;q=0.8", "*;q=0.5, en;q=0", "ZH ;q = 0.3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got := words.Accept(header)
		if got != words.English && got != words.Chinese {
			t.Fatalf("%q: %q", header, got)
		}
		if got == words.Chinese && !strings.Contains(strings.ToLower(header), "zh") {
			t.Errorf("%q is answered in Chinese", header)
		}
		if spaced := words.Accept(strings.ReplaceAll(header, ",", " , ")); spaced != got {
			t.Errorf("%q: %s, and with spaces %s", header, got, spaced)
		}
	})
}

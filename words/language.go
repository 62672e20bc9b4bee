package words

import (
	"strings"
)

// The languages.
const (
	English = "en"
	Chinese = "zh"
)

// FromEnvironment returns the language that the environment asks for: the first of STOCK_LANG, LC_ALL, LC_MESSAGES and
// LANG that is set and not empty decides. What begins with "zh", such as zh_CN.UTF-8, is Chinese; all else is English.
func FromEnvironment(lookup func(name string) string) string {
	for _, name := range []string{"STOCK_LANG", "LC_ALL", "LC_MESSAGES", "LANG"} {
		if value := lookup(name); value != "" {
			return Parse(value)
		}
	}
	return English
}

// Parse returns the language of a locale or of a tag: Chinese for zh, zh_CN.UTF-8, zh-Hans, ZH; else English.
func Parse(name string) string {
	if len(name) >= 2 && strings.EqualFold(name[:2], Chinese) && (len(name) == 2 || !letter(name[2])) {
		return Chinese
	}
	return English
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// Columns returns how many columns of a terminal a text takes: a Chinese character, and its punctuation, takes two.
func Columns(text string) int {
	n := 0
	for _, r := range text {
		n++
		if Wide(r) {
			n++
		}
	}
	return n
}

// Wide reports whether a character is as wide as two letters: the blocks of Unicode that East Asian text is made of.
func Wide(r rune) bool {
	return r >= 0x1100 && r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6
}

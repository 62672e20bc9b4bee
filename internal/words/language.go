package words

import "strings"

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

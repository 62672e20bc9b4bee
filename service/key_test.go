package service

import (
	"strings"
	"testing"
)

func TestParseKey(t *testing.T) {
	for in, want := range map[string]string{
		"abc": "abc", `"abc"`: "abc", `"a\"b\\c"`: `a"b\c`, `a"b`: `a"b`, strings.Repeat("k",
			MaxKeyText): strings.Repeat("k", MaxKeyText),
	} {
		if got, err := ParseKey(in); err != nil || got != want {
			t.Errorf("ParseKey(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", `""`, `"a`, `"a"b`, `"a\x"`, `"a\`, "a b", "a\x7f", "é", strings.Repeat("k", MaxKeyText+1), "\n",
	} {
		if got, err := ParseKey(in); err == nil {
			t.Errorf("ParseKey(%q) = %q", in, got)
		}
	}
}

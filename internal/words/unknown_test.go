package words_test

import (
	"strings"
	"testing"

	"example.com/stock/internal/words"
)

// Who mistypes a name is told what is near it, and who guesses is told everything, in both languages.
func TestUnknown(t *testing.T) {
	t.Parallel()
	known := []string{"no-lock", "holder-killed", "holder-frozen-past-lease", "herd"}
	for name, want := range map[string]string{
		"holder-kiled": "holder-killed", "HOLDER-KILLED": "holder-killed", "frozen": "holder-frozen-past-lease",
		"holder": "holder-killed or holder-frozen-past-lease", "hred": "did you mean herd?",
		"qq": "there are no-lock, holder-killed", "": "herd",
	} {
		got := words.Unknown(words.Text{EN: "scenario", ZH: "场景"}, name, known)
		if !strings.Contains(got.EN, want) {
			t.Errorf("%q: %s, want %s in it", name, got.EN, want)
		}
		if !strings.Contains(got.ZH, "场景") || !strings.Contains(got.ZH, "h") {
			t.Errorf("%q: %s", name, got.ZH)
		}
	}
}

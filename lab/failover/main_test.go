package failover

import (
	"testing"

	"go.uber.org/goleak"

	"example.com/stock/internal/words/wordstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every text is there in both languages, is given its values, and is said.
func TestTheTexts(t *testing.T) {
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{"say": {}, "line": {}}, "fault.")
}

package diagram

import (
	"testing"

	"example.com/stock/internal/words/wordstest"
)

// Every text is there in both languages, is given its values, and is used.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	made := []string{"lanes.lock", "lanes.store", "lanes.wire"}
	for _, mark := range []string{"lease", "standing", "overlap", "paused", "thinks", "fault"} {
		made = append(made, "marks."+mark)
	}
	for _, p := range []string{
		"before_lock", "after_lock", "after_read", "before_write", "after_write", "after_unlock",
	} {
		made = append(made, "points."+p)
	}
	wordstest.Catalogue(t, phrases, map[string]wordstest.Speaker{"say": {}}, made...)
}

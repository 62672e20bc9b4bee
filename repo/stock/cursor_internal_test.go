package stock

import (
	"math"
	"testing"
)

// A cursor is read as it was written, and nothing else is one.
func TestCursors(t *testing.T) {
	for _, want := range []cursor{{1, 0}, {7, 12}, {math.MaxUint64, math.MaxInt64}} {
		if got, err := parseCursor(want.String()); got != want || err != nil {
			t.Errorf("%s is read as %v, %v", want, got, err)
		}
	}
	if got, err := parseCursor(""); got != (cursor{}) || err != nil {
		t.Errorf("nothing is read as %v, %v", got, err)
	}
	for _, wrong := range []string{"0.1", "1.-1", "1", "1.", ".1", "1.x", "x.1", "1.2.3", "-1.2", " 1.2"} {
		if got, err := parseCursor(wrong); err == nil {
			t.Errorf("%q is read as %v", wrong, got)
		}
	}
}

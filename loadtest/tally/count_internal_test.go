package tally

import (
	"strconv"
	"testing"
)

// A count is not below zero and not beyond the largest that is believed.
func TestCounts(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, strconv.Itoa(most): most, strconv.Itoa(most + 1): -1, "-1": -1, "9223372036854775808": -1,
		"": -1, "1.5": -1, "many": -1,
	} {
		if n, err := count(text); (err == nil) != (want >= 0) || err == nil && n != want {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}

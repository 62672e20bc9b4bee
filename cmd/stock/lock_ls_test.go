package main

import (
	"slices"
	"testing"
)

// Of all keys that the lock's server knows, those of segments are picked: all of them, of a SKU, or one.
func TestSegmentsOf(t *testing.T) {
	keys := []string{"stock#3", "nightly-report", "stock", "other#1", "stock#1", "stocks#1"}
	for _, row := range []struct{ skus, want []string }{
		{nil, []string{"other#1", "stock#1", "stock#3", "stocks#1"}},
		{[]string{"stock"}, []string{"stock#1", "stock#3"}},
		{[]string{"stock#3", "other"}, []string{"other#1", "stock#3"}},
		{[]string{"nightly-report"}, []string{}},
	} {
		if got := segmentsOf(slices.Clone(keys), row.skus); !slices.Equal(got, row.want) {
			t.Errorf("of %q: %q, want %q", row.skus, got, row.want)
		}
	}
}

package lab

import (
	"strings"
	"testing"

	"example.com/stock/loadtest/checkout"
)

// Books that do not balance are found, whatever is wrong with them.
func TestBooksThatAreWrong(t *testing.T) {
	t.Parallel()
	whole := func() Books {
		counts := checkout.Counts{Received: 5, Available: 4, Sold: 1, Number: 3}
		return Books{counts, []checkout.Movement{
			{Number: 1, Kind: "set", Received: 5, Available: 5},
			{Number: 2, Kind: "reserve", Available: -1, Reserved: 1},
			{Number: 3, Kind: "confirm", Reserved: -1, Sold: 1},
		}}
	}
	if wrong := whole().wrong(); wrong != "" {
		t.Fatal(wrong)
	}
	for _, row := range []struct {
		name  string
		spoil func(*Books)
		want  string
	}{
		{"a movement is missing", func(b *Books) { b.Movements = append(b.Movements[:1], b.Movements[2]) }, "comes 3"},
		{"given back twice", func(b *Books) {
			b.Movements = append(b.Movements, checkout.Movement{Number: 4, Kind: "expire", Available: 1, Reserved: -1})
			b.Available++
			b.Reserved--
		}, "the law does not hold after movement 4"},
		{"out of nothing", func(b *Books) { b.Movements[1].Available = 0 }, "the law does not hold after movement 2"},
		{"the counter", func(b *Books) { b.Sold++ }, "not the sum"},
	} {
		b := whole()
		row.spoil(&b)
		if got := b.wrong(); !strings.Contains(got, row.want) {
			t.Errorf("%s: %q", row.name, got)
		}
	}
}

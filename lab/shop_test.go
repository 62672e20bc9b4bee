package lab

import (
	"strings"
	"testing"
)

// Books that do not balance are found, whatever is wrong with them.
func TestBooksThatAreWrong(t *testing.T) {
	t.Parallel()
	whole := func() Books {
		return Books{Received: 5, Available: 4, Sold: 1, Movements: []Movement{
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
			b.Movements = append(b.Movements, Movement{Number: 4, Kind: "expire", Available: 1, Reserved: -1})
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

// A reply is told with what matters of it.
func TestWhatAShopAnswers(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reply ShopReply
		want  string
	}{
		{ShopReply{Error: "the connection broke"}, "no reply: the connection broke"},
		{ShopReply{Status: 409, Type: "/problems/limit_reached"}, "409 limit_reached"},
		{ShopReply{Status: 503, Type: "/problems/outcome_unknown", Order: "x"}, "503 outcome_unknown"},
		{ShopReply{Status: 201, Reservation: "r", State: "held"}, "201 reservation r, held"},
		{ShopReply{Status: 200, Order: "o", Reservation: "r", Late: true}, "200 order o, late"},
		{ShopReply{Status: 201, Order: "o", Replayed: true}, "201 order o, the first reply again"},
	} {
		if got := row.reply.Said(); got.EN != row.want || got.ZH == "" {
			t.Errorf("%+v: %q", row.reply, got)
		}
	}
}

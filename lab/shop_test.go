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

// A reply is told with what matters of it.
func TestWhatAShopAnswers(t *testing.T) {
	t.Parallel()
	done := func(status int, got checkout.Thing) checkout.Record {
		return checkout.Record{Outcome: checkout.Done, Status: status, Got: &got}
	}
	replayed := done(201, checkout.Thing{OrderID: "o"})
	replayed.Replayed = true
	for _, row := range []struct {
		reply checkout.Record
		want  string
	}{
		{checkout.Record{Outcome: checkout.Unknown, Error: "EOF"}, "no reply: the connection broke"},
		{checkout.Record{Outcome: checkout.Refused, Status: 409, Problem: "limit_reached"}, "409 limit_reached"},
		{checkout.Record{Outcome: checkout.Unknown, Status: 503, Problem: "outcome_unknown"}, "503 outcome_unknown"},
		{done(201, checkout.Thing{ReservationID: "r", State: "held"}), "201 reservation r, held"},
		{done(200, checkout.Thing{OrderID: "o", ReservationID: "r", Late: true}), "200 order o, late"},
		{replayed, "201 order o, the first reply again"},
	} {
		if got := answered(&row.reply); got.EN != row.want || got.ZH == "" {
			t.Errorf("%+v: %q", row.reply, got)
		}
	}
}

package repo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
	"example.com/stock/stack/wire"
)

// A move whose connection breaks in the middle has happened or not: the units are all there, nobody is told that an
// order is in doubt, and the same move, read anew, works.
func TestGatherBreaks(t *testing.T) {
	for _, row := range []struct {
		store, word string
		fault       wire.Action
		fails       bool
	}{
		{"redis", "evalsha", wire.Cut, true},
		{"redis", "evalsha", wire.CutReply, true},
		{"redis", "evalsha", wire.HoldReply, true},
		{"mysql", "START TRANSACTION", wire.Cut, false}, // nothing was done, so it is done again
		{"mysql", "START TRANSACTION", wire.HoldReply, true},
		{"mysql", "UPDATE `stock`", wire.Cut, true},
		{"mysql", "UPDATE `stock`", wire.CutReply, true},
		{"mysql", "UPDATE `stock_segments`", wire.Cut, true},
		{"mysql", "UPDATE `stock_segments`", wire.CutReply, true},
		{"mysql", "UPDATE `stock_segments`", wire.HoldReply, true},
		{"mysql", "INSERT INTO `stock_segments`", wire.Cut, true},
		{"mysql", "INSERT INTO `stock_segments`", wire.CutReply, true},
		{"mysql", "COMMIT", wire.Cut, true},
		{"mysql", "COMMIT", wire.CutReply, true},
		{"mysql", "COMMIT", wire.HoldReply, true},
	} {
		t.Run(fmt.Sprintf("%s/%s/%d", row.store, row.word, row.fault), func(t *testing.T) {
			p, broken, sound := proxied(t, row.store)
			const sku = service.SKU("gather")
			mustSet(t, sound, sku, 100)
			gather(t, broken, sku, 2, 10) // loads the script and opens the connection
			gather(t, sound, sku, 3, 10)
			g := gathering(parts(t, sound, sku), 1, 5, 2, 3)
			p.once(row.fault, row.word)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			err := broken.Refill(ctx, g)
			if (err != nil) != row.fails || row.fails && !errors.Is(err, lock.ErrDown) || errors.Is(err, service.ErrOutcomeUnknown) {
				t.Errorf("error %v; want ErrDown: %v", err, row.fails)
			}
			now := parts(t, sound, sku)
			moved := now.Row(1).Quantity
			if moved != 0 && moved != 25 || now.Row(2).Quantity+now.Row(3).Quantity+now.Reserve != 100-moved {
				t.Errorf("half a move: %+v", now)
			}
			if moved == 0 {
				gather(t, sound, sku, 1, 5, 2, 3)
			}
			if got := parts(t, sound, sku).Row(1).Quantity; got != 25 {
				t.Errorf("%d units in the segment, want 25", got)
			}
		})
	}
}

// To look is to read: an answer that is lost leaves no order in doubt.
func TestLooksBreak(t *testing.T) {
	for _, store := range []string{"redis", "mysql"} {
		p, broken, sound := proxied(t, store)
		const sku = service.SKU("looks")
		mustSet(t, sound, sku, 10)
		for what, look := range map[string]func(context.Context) error{
			"Segments": func(ctx context.Context) error { _, err := broken.Segments(ctx, sku); return err },
			"Orders":   func(ctx context.Context) error { _, _, err := broken.Orders(ctx, sku, "", 1); return err },
		} {
			if err := look(short(t)); err != nil {
				t.Fatal(err)
			}
			p.Silence(wire.ToClient)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			err := look(ctx)
			cancel()
			if !errors.Is(err, lock.ErrDown) || errors.Is(err, service.ErrOutcomeUnknown) {
				t.Errorf("%s on %s: %v, want ErrDown", what, store, err)
			}
			p.Silence()
		}
	}
}

// Every operation takes the round trips that it says.
func TestSegmentRoundTrips(t *testing.T) {
	for store, n := range map[string]struct{ swap, look, read, share, merge, sale, set int }{
		"redis": {1, 1, 1, 1, 1, 1, 2}, "mysql": {4, 1, 2, 4, 6, 4, 9},
	} {
		t.Run(store, func(t *testing.T) {
			p, s, sound := proxied(t, store)
			const sku = service.SKU("trips")
			for _, warm := range []bool{false, true} {
				mustSet(t, sound, sku, 100)
				trips(t, p, warm, "Swap", n.swap, func() error { return s.Swap(short(t), order(mustRead(t, sound, sku))) })
				gather(t, sound, sku, 2, 1)
				gather(t, sound, sku, 3, 1)
				all := parts(t, sound, sku)
				trips(t, p, warm, "Segments", n.look, func() error { _, err := s.Segments(short(t), sku); return err })
				trips(t, p, warm, "Read", n.read, func() error { _, err := s.Read(short(t), sku); return err })
				trips(t, p, warm, "Gather from the reserve", n.share, func() error { return s.Refill(short(t), gathering(all, 1, 10)) })
				all = parts(t, sound, sku)
				trips(t, p, warm, "Gather from two", n.merge, func() error { return s.Refill(short(t), gathering(all, 1, 10, 2, 3)) })
				trips(t, p, warm, "Swap of a segment", n.sale, func() error { return s.Swap(short(t), fromSegment(parts(t, sound, sku), 1)) })
				trips(t, p, warm, "Set", n.set, func() error { _, err := s.Set(short(t), sku, 100); return err })
			}
		})
	}
}

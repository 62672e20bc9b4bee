package stock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
)

// An operation is one of both stores, on a stock of 100 units.
type operation struct {
	name  string
	split bool // segments 2 and 3 have 10 units each
	sale  bool // it writes the order of the scene
	// doubt: if its reply is lost, its outcome is unknown. It is not for what changes nothing, or may be done again.
	doubt bool
	run   func(ctx context.Context, s shop, at scene) error
	done  func(t *testing.T, s shop, at scene) bool
}

// A scene is what an operation finds.
type scene struct {
	sku   service.SKU
	all   service.Segments
	order service.Order // of a sale that has read it
}

// operations returns those of s.
func operations(s shop) (all []operation) {
	written := func(t *testing.T, s shop, at scene) bool { _, is := settle(t, s, at.sku, at.order.ID); return is }
	for name := range ways(s) {
		run := func(ctx context.Context, s shop, at scene) error { return ways(s)[name](ctx, at.order) }
		all = append(all, operation{name: name, sale: true, doubt: true, run: run, done: written})
	}
	// The others check what they were told.
	wrong := func(err error, right bool) error {
		if err == nil && !right {
			return errors.New("it was told something else")
		}
		return err
	}
	told := func(*testing.T, shop, scene) bool { return true }
	return append(all,
		operation{"Swap of a segment", true, true, true, func(ctx context.Context, s shop, at scene) error {
			return s.Swap(ctx, at.order)
		}, written},
		operation{"Set", true, false, true, func(ctx context.Context, s shop, at scene) error {
			_, err := s.Set(ctx, at.sku, 5, service.Condition{})
			return err
		}, func(t *testing.T, s shop, at scene) bool { return mustRead(t, s, at.sku).Quantity == 5 }},
		operation{"Raise", true, false, true, func(ctx context.Context, s shop, at scene) error {
			return s.Raise(ctx, at.sku, 2, "none", 7)
		}, func(t *testing.T, s shop, at scene) bool { return parts(t, s, at.sku).Row(2).Fence == 7 }},
		operation{"Refill", true, false, false, func(ctx context.Context, s shop, at scene) error {
			return s.Refill(ctx, refillOf(at.all, 1, 5, 2, 3))
		}, func(t *testing.T, s shop, at scene) bool { return parts(t, s, at.sku).Row(1).Quantity == 25 }},
		operation{"Settle", false, false, false, func(ctx context.Context, s shop, at scene) error {
			_, is, err := s.Settle(ctx, at.sku, at.order.ID)
			return wrong(err, !is)
		}, func(t *testing.T, s shop, at scene) bool {
			_, err := s.Deduct(short(t), at.order)
			return errors.Is(err, service.ErrSettled)
		}},
		operation{"Read", true, false, false, func(ctx context.Context, s shop, at scene) error {
			stock, err := s.Read(ctx, at.sku)
			return wrong(err, stock == at.all.Stock)
		}, told},
		operation{"Segments", true, false, false, func(ctx context.Context, s shop, at scene) error {
			all, err := s.Segments(ctx, at.sku)
			return wrong(err, all.Stock == at.all.Stock && slices.Equal(all.Rows, at.all.Rows))
		}, told},
		operation{"Orders", false, false, false, func(ctx context.Context, s shop, at scene) error {
			page, _, err := s.Orders(ctx, at.sku, "", 5)
			return wrong(err, len(page) == 0)
		}, told},
		operation{"Replay", false, false, false, func(ctx context.Context, s shop, at scene) error {
			_, found, err := s.Replay(ctx, at.sku, newKey(at.sku, "fault"))
			return wrong(err, !found)
		}, told},
		operation{"CanWrite", false, false, false, func(ctx context.Context, s shop, _ scene) error {
			return s.CanWrite(ctx)
		}, told},
	)
}

// set prepares a new SKU for an operation.
func (op operation) set(t *testing.T, s shop) scene {
	t.Helper()
	at := scene{sku: newSKU("fault")}
	mustSet(t, s, at.sku, 100)
	if op.split {
		refill(t, s, at.sku, 2, 10)
		refill(t, s, at.sku, 3, 10)
	}
	at.all = parts(t, s, at.sku)
	at.order = order(at.all.Stock)
	if op.split {
		at.order = fromSegment(at.all, 2)
	}
	return at
}

// Whichever request of an operation is lost, or its reply, or whichever reply does not come in time: the caller is told
// what it may rely on, and the books balance.
func TestAFaultAtEveryRequest(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis", "mysql"} {
		_, _, s := proxied(t, store)
		for _, op := range operations(s) {
			t.Run(store+"/"+op.name, func(t *testing.T) {
				t.Parallel()
				p, broken, sound := proxied(t, store)
				warm := op.set(t, sound)
				if err := op.run(short(t), broken, warm); err != nil || !op.done(t, sound, warm) {
					t.Fatalf("without a fault: %v", err)
				}
				for _, fault := range []wire.Action{wire.Cut, wire.CutReply, wire.HoldReply} {
					for k := 0; k < 20 && op.meets(t, p, broken, sound, fault, k); k++ {
						continue
					}
				}
			})
		}
	}
}

// meets runs the operation with a fault at a request, and reports whether it sends so many.
func (op operation) meets(t *testing.T, p proxy, broken, sound shop, fault wire.Action, request int) bool {
	t.Helper()
	at := op.set(t, sound)
	mustRead(t, broken, at.sku) // opens the connection
	limit := repotest.Patience
	if fault == wire.HoldReply {
		limit = 500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	snare := p.Set(wire.Trap{On: wire.ToServer, Skip: request, Do: fault})
	defer snare.Release()
	err := op.run(ctx, broken, at)
	unknown, down := errors.Is(err, service.ErrOutcomeUnknown), errors.Is(err, lock.ErrDown)
	waited := !unknown && errors.Is(err, context.DeadlineExceeded) // for a row
	done := op.done(t, sound, at)
	switch {
	case err != nil && !waited && unknown == down:
		t.Errorf("fault %d at request %d: %v, want that the server is down or the outcome unknown", fault, request, err)
	case unknown && !op.doubt:
		t.Errorf("fault %d at request %d: %v, of what may be done again", fault, request, err)
	case err == nil && !done:
		t.Errorf("fault %d at request %d: it was told done, and is not", fault, request)
	case err != nil && !unknown && op.sale && done:
		t.Errorf("fault %d at request %d: %v, and the order is written", fault, request, err)
	}
	parts(t, sound, at.sku)
	if op.sale && done {
		balanced(t, sound, at.sku, 1)
	} else if op.sale {
		balanced(t, sound, at.sku, 0)
	}
	select {
	case <-snare.Sprung():
		return true
	default:
		return err != nil // on a busy computer ctx may end before the request is sent
	}
}

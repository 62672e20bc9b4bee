package stock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
)

// A sale whose connection breaks in the middle is unknown only if the server had all it needed; it is never half a
// sale.
func TestConnectionBreaks(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		store, word string
		fault       wire.Action
		err         error
		orders      int
	}{
		{"redis", "evalsha", wire.Cut, service.ErrOutcomeUnknown, 0},
		{"redis", "evalsha", wire.CutReply, service.ErrOutcomeUnknown, 1},
		{"redis", "evalsha", wire.HoldReply, service.ErrOutcomeUnknown, 1},
		{"mysql", "START TRANSACTION", wire.Cut, nil, 1}, // nothing was done, so it is done again
		{"mysql", "START TRANSACTION", wire.CutReply, nil, 1},
		{"mysql", "START TRANSACTION", wire.HoldReply, lock.ErrDown, 0},
		{"mysql", "COMMIT", wire.Cut, service.ErrOutcomeUnknown, 0}, // with the statements that write
		{"mysql", "COMMIT", wire.CutReply, service.ErrOutcomeUnknown, 1},
		{"mysql", "COMMIT", wire.HoldReply, service.ErrOutcomeUnknown, 1},
	} {
		for _, op := range []string{"Write", "Deduct", "Batch"} {
			t.Run(fmt.Sprintf("%s/%s/%d/%s", row.store, row.word, row.fault, op), func(t *testing.T) {
				t.Parallel()
				p, broken, sound := proxied(t, row.store)
				sku := newSKU("fault")
				sell := ways(broken)[op]
				// The first sale loads the script and opens the connection.
				if err := sell(short(t), order(mustSet(t, sound, sku, 100))); err != nil {
					t.Fatal(err)
				}
				stock := mustSet(t, sound, sku, 100)
				p.Once(row.fault, row.word)
				ctx, cancel := repotest.Meeting(t, row.fault)
				defer cancel()
				o := order(stock)
				o.Quantity, o.Remaining = 3, 97
				err := sell(ctx, o)
				if !errors.Is(err, row.err) || errors.Is(err, lock.ErrDown) != (row.err == lock.ErrDown) ||
					errors.Is(err, service.ErrOutcomeUnknown) != (row.err == service.ErrOutcomeUnknown) {
					t.Errorf("error %v, want %v", err, row.err)
				}
				await(t, sound, sku, row.orders)
				balanced(t, sound, sku, row.orders)
				if err := sell(short(t), order(mustSet(t, sound, sku, 100))); err != nil {
					t.Errorf("after the fault: %v", err)
				}
				balanced(t, sound, sku, 1)
			})
		}
	}
}

// await waits until there are that many orders. The reply to the first statement of a packet is lost before the last
// one is run.
func await(t *testing.T, s shop, sku service.SKU, orders int) {
	t.Helper()
	for end := time.Now().Add(repotest.Patience); len(allOrders(t, s, sku)) != orders; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("there are never %d orders", orders)
		}
	}
}

// balanced wants that many orders, and stock that fits them.
func balanced(t *testing.T, s shop, sku service.SKU, orders int) {
	t.Helper()
	var sum int64
	all := allOrders(t, s, sku)
	for _, o := range all {
		sum += o.Quantity
	}
	stock := mustRead(t, s, sku)
	if len(all) != orders || stock.Sold != sum || stock.Quantity+sum != stock.Initial {
		t.Errorf("%d orders of %d units in all, want %d orders; %+v", len(all), sum, orders, stock)
	}
}

// A store whose server is gone says so (within 3 s, if the computer has time for us), and works again when the server
// does.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, kind := range []server.Kind{server.Redis, server.MySQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			backend := servertest.Server(t, kind)
			var s shop
			if kind == server.Redis {
				s = onRedis(dialRedis(t, backend.Addr))
			} else {
				s = onMySQL(migrated(t, backend.URL))
			}
			const sku = service.SKU("outage")
			stock := mustSet(t, s, sku, 100)

			t.Run("paused", func(t *testing.T) {
				if err := backend.Pause(); err != nil {
					t.Fatal(err)
				}
				// The first write goes out on an open connection, and is answered or not. The next needs a new
				// connection, gets none, and was never sent.
				silent := service.ErrOutcomeUnknown
				if kind == server.MySQL {
					silent = lock.ErrDown // it hangs before COMMIT
				}
				write := func(ctx context.Context) error { return s.Write(ctx, order(stock)) }
				down(t, "Write", write, silent)
				read := func(ctx context.Context) error { _, err := s.Read(ctx, sku); return err }
				var both sync.WaitGroup
				both.Go(func() { down(t, "Write", write, lock.ErrDown) })
				both.Go(func() { down(t, "Read", read, lock.ErrDown) })
				both.Wait()
				if err := backend.Resume(); err != nil {
					t.Fatal(err)
				}
				recovers(t, s, sku)
			})
			t.Run("stopped", func(t *testing.T) {
				if err := backend.Stop(); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					down(t, "Read", func(ctx context.Context) error { _, err := s.Read(ctx, sku); return err },
						lock.ErrDown)
					down(t, "Write", func(ctx context.Context) error { return s.Write(ctx, order(stock)) },
						lock.ErrDown)
					down(
						t, "Deduct",
						func(ctx context.Context) error { _, err := s.Deduct(ctx, order(stock)); return err },
						lock.ErrDown,
					)
					down(
						t, "Orders",
						func(ctx context.Context) error { _, _, err := s.Orders(ctx, sku, "", 1); return err },
						lock.ErrDown,
					)
				}
				if err := backend.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				recovers(t, s, sku)
			})
		})
	}
}

// recovers polls until the stock can be set, and wants all to work then.
func recovers(t *testing.T, s shop, sku service.SKU) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), repotest.Patience)
	defer cancel()
	for {
		stock, err := s.Set(ctx, sku, 100)
		if err == nil {
			if err := s.Write(ctx, order(stock)); err != nil {
				t.Errorf("after the outage: %v", err)
			}
			balanced(t, s, sku, 1)
			return
		}
		if ctx.Err() != nil {
			t.Fatal(fmt.Errorf("does not recover: %w", err))
		}
	}
}

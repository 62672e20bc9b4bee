package selltest

import (
	"errors"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// behind is the store of w behind a fault proxy.
func (w *way) behind(t *testing.T) (*wire.Proxy, shop) {
	t.Helper()
	addr, protocol := servers.Redis(t).Addr, wire.Redis()
	dsn, err := mysql.ParseDSN(mysqlDSN(t))
	if err != nil {
		t.Fatal(err)
	}
	if w.kept == strategy.MySQL {
		addr, protocol = dsn.Addr, wire.MySQL()
	}
	p, err := wire.Listen(addr, protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if w.kept == strategy.Redis {
		return p, stock.NewRedis(repo.NewRedis(dial(t, p.Addr())))
	}
	dsn.Addr = p.Addr()
	return p, stock.NewMySQL(repo.NewMySQL(orm(t, dsn.FormatDSN())))
}

func settlesDoubt(t *testing.T, w *way) {
	words := map[string][2]string{ // in the request that writes the order, and in the one that ends the step
		strategy.Redis: {"order_id", "order_id"}, strategy.MySQL: {"INSERT INTO orders", "COMMIT"},
	}[w.kept]
	// With one segment, and units in it, a sale from segments is one step of the store as well.
	w = w.rig.way(t, w.Strategy, w.kept, func(s *strategy.Servers) { s.Segments = 1 })
	for _, row := range []struct {
		name    string
		trap    wire.Trap
		written int64
	}{
		{"held", wire.Trap{Match: wire.Contains(words[0]), Do: wire.Hold}, 0},
		{"lost", wire.Trap{Match: wire.Contains(words[1]), Do: wire.Cut}, 0},
		{"reply lost", wire.Trap{Match: wire.Contains(words[1]), Do: wire.CutReply}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, far := w.behind(t)
			s := w.on(t, 0, far)
			direct := w.on(t, 1, w.store)
			if _, err := s.sell(t.Context()); err != nil { // opens the connection, and fetches units for a segment
				t.Fatal(err)
			}
			hasty := s
			if row.trap.Do == wire.Hold {
				hasty = &scene{Service: service.New(s.Config), sku: s.sku}
				hasty.Work = time.Second
			}
			row.trap.On = wire.ToServer
			snare := p.Set(row.trap)
			defer snare.Release()
			_, err := hasty.sell(t.Context())
			told, ok := errors.AsType[*service.OrderError](err)
			if !ok || told.SKU != s.sku || told.Store != "here" || errors.Is(err, lock.ErrHeld) {
				t.Fatalf("the sale: %v, want an OrderError", err)
			}
			// A MySQL that has not got the INSERT has done nothing, and the store knows that.
			if !errors.Is(err, service.ErrOutcomeUnknown) && (row.trap.Do != wire.Hold || w.kept == strategy.Redis) {
				t.Errorf("the sale: %v, want ErrOutcomeUnknown", err)
			}
			for range 2 {
				got, err := direct.Settle(t.Context(), "here", s.sku, told.OrderID)
				end := time.Now().Add(time.Minute)
				for errors.Is(err, service.ErrUndecided) && time.Now().Before(end) {
					got, err = direct.Settle(t.Context(), "here", s.sku, told.OrderID)
				}
				if err != nil || got.Written != (row.written > 0) || got.Written && got.Order.ID != told.OrderID {
					t.Errorf("settled as %+v, %v; want written: %d", got, err, row.written)
				}
				snare.Release()
			}
			direct.sold(t, 1+row.written)
		})
	}
}

// The lease of this clause is longer than it takes to give up a write and to see it happen.
const shortLease = 4 * time.Second

// A is told that the outcome is not known, because its COMMIT lies in the network. B asks for the lock at once. The
// COMMIT arrives when B has read, or when a second has passed in which B did not. Whatever B sells after that, it
// must not be by what A had read.
func keepsTheLease(t *testing.T, w *way) {
	for name, off := range map[string]bool{"fenced": false, "fencing off": true} {
		timed := w.Name == "redis-setnx" || w.Name == "redis-watchdog" // of these a test may shorten the lease
		if off && !timed {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atOnce := w.Promise.Fenced && !off // B gets the lock at once: its write compares the version
			w := w.rig.way(t, w.Strategy, w.kept, func(s *strategy.Servers) {
				s.SetNXLease, s.WatchdogLease, s.RedlockLease = shortLease, shortLease, shortLease
			})
			p, far := w.behind(t)
			a := w.on(t, 0, far, func(c *service.Config) { c.Work = time.Second })
			b := w.on(t, 1, w.store)
			snare := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("COMMIT"), Do: wire.Hold})
			defer snare.Release()
			_, err := a.sell(t.Context(), lab(service.Lab{Unfenced: off}))
			fails(t, err, all(service.ErrOutcomeUnknown))

			read, done := make(chan struct{}), make(chan answer, 1)
			go func() {
				r, err := b.sell(t.Context(), lab(service.Lab{Unfenced: off}),
					b.at(service.ReadIt, func(service.Step) { close(read) }))
				done <- answer{r, err}
			}()
			early, patience := false, time.Second
			if atOnce {
				patience = time.Minute
			}
			select {
			case <-read:
				early = true
			case <-time.After(patience):
			}
			snare.Release()
			second := <-done
			if early != atOnce {
				t.Errorf("B read before A's write was done: %v, want %v", early, atOnce)
			}
			if !atOnce {
				if second.err != nil {
					t.Errorf("B: %v, want it sold after A", second.err)
				}
				b.sold(t, 2)
				return
			}
			// A's COMMIT and B's write are on two connections: either may be first, and the other one does nothing.
			if second.err != nil && !errors.Is(second.err, service.ErrOvertaken) {
				t.Errorf("B: %v, want it sold or overtaken", second.err)
			}
			b.sold(t, 1)
		})
	}
}

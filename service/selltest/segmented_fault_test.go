package selltest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

var errCrash = errors.New("the process is gone")

// A crashingStore is a store whose caller dies at one of its calls: before it, or after it was done and not answered.
type crashingStore struct {
	shop
	mu     sync.Mutex
	step   string // dies at this step; "": never
	at     int    // the how manieth time
	before bool   // or after
	calls  int    // of that step
}

func (m *crashingStore) Segments(ctx context.Context, sku service.SKU) (all service.Segments, err error) {
	err = m.take("look", func() (err error) {
		all, err = m.shop.(service.Segmenter).Segments(ctx, sku)
		return err
	})
	return all, err
}

func (m *crashingStore) Refill(ctx context.Context, g service.Refill) error {
	return m.take(
		fmt.Sprintf("move from %d", len(g.From)),
		func() error { return m.shop.(service.Segmenter).Refill(ctx, g) },
	)
}

func (m *crashingStore) Swap(ctx context.Context, o service.Order) error {
	return m.take("write", func() error { return m.shop.(service.Segmenter).Swap(ctx, o) })
}

func (m *crashingStore) take(step string, do func() error) error {
	m.mu.Lock()
	if m.step == step {
		m.calls++
	}
	dies := m.step == step && m.calls == m.at
	m.mu.Unlock()
	if dies && m.before {
		return errCrash
	}
	err := do()
	if dies && err == nil {
		return errCrash
	}
	return err
}

// scattered stages a scene with 16 units, two in each of eight segments.
func scattered(t *testing.T, store shop) *scene {
	t.Helper()
	s := segmentedOn(t, store, 16, segmented(&local.Mutex{}, 8))[0]
	parts := store.(service.Segmenter)
	for n := 1; n <= 8; n++ {
		view, err := parts.Segments(t.Context(), s.sku)
		if err == nil {
			err = parts.Refill(
				t.Context(),
				service.Refill{SKU: s.sku, Epoch: view.Epoch, Strategy: "it", Into: view.Row(n), Reserve: 2},
			)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// A process that dies at any step of a sale leaves every unit in exactly one place, and those after it sell them
// all. Steps go by name and not by number: at which segment a sale begins is left to chance, and with it how often
// it looks before it moves.
func TestSegmentedCrashAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		reserve := func(t *testing.T, store shop) *scene {
			return segmentedOn(t, store, 16, segmented(&local.Mutex{}, 8))[0]
		}
		for _, c := range []struct {
			from string
			open func(*testing.T, shop) *scene
			step string
		}{
			{"the reserve", reserve, "look"},
			{"the reserve", reserve, "move from 0"},
			{"the reserve", reserve, "write"},
			{"fragments", scattered, "look"},
			{"fragments", scattered, "move from 2"},
			{"fragments", scattered, "write"},
		} {
			for _, before := range []bool{true, false} {
				if died := crashAt(t, c.open, &crashingStore{shop: store, before: before}, c.step); died == 0 {
					t.Errorf("nobody who sold from %s died at %q: this proves nothing", c.from, c.step)
				}
			}
		}
	})
}

// crashAt dies at a step of a sale, the first time, the second, and so on until the sale has fewer of them. It
// returns how often it died.
func crashAt(t *testing.T, open func(*testing.T, shop) *scene, m *crashingStore, step string) (died int) {
	t.Helper()
	for {
		m.step = "" // not while the scene is set
		s := open(t, m)
		m.step, m.at, m.calls = step, died+1, 0
		_, err := s.sell(t.Context(), func(r *service.Request) { r.Quantity = 5 })
		m.step = ""
		if err == nil {
			return died
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		died++
		stock, err := s.Stock(t.Context(), "", s.sku)
		if err != nil || stock.Quantity+stock.Sold != 16 {
			t.Errorf("died at %s %d: %+v, %v", step, died, stock, err)
		}
		if sold := step == "write" && !m.before; sold != (stock.Sold == 5) {
			t.Errorf("died at %s %d: %d sold", step, died, stock.Sold)
		}
		buyAtOnce(t, []*scene{s}, []buyer{{3, 0}, {1, 0}})
		if stock, err = s.Stock(t.Context(), "", s.sku); err != nil || stock.Quantity != 0 || stock.Sold != 16 {
			t.Errorf("died at %s %d: at the end %+v, %v", step, died, stock, err)
		}
	}
}

// A client that goes away, and a wait that ends, between any two steps.
func TestSegmentedLeftAtEveryStep(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		m := &crashingStore{shop: redisStore(t)}
		s := scattered(t, m)
		ctx, leave := context.WithCancel(t.Context())
		calls := 0
		s.Strategies["it"] = service.StrategyConfig{
			Blocking: true,
			Seller: func(inside context.Context, store service.Store, sale *service.Sale) error {
				return segmented(&lockedAfter{&local.Mutex{}, func() {
					if calls++; calls == at {
						leave()
					}
				}}, 8)(inside, store, sale)
			},
		}
		_, err := s.sell(ctx, func(r *service.Request) { r.Quantity = 5 })
		left := ctx.Err() != nil
		leave()
		stock, told := s.Stock(t.Context(), "", s.sku)
		if told != nil || stock.Quantity+stock.Sold != 16 || (err == nil) != (stock.Sold == 5) ||
			err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("left at lock %d: %v, %+v, %v", at, err, stock, told)
		}
		buyAtOnce(t, []*scene{s}, []buyer{{1, 0}})
		if !left {
			break
		}
	}
}

// lockedAfter does something each time before a lock is asked for.
type lockedAfter struct {
	lock.Locker
	do func()
}

func (l *lockedAfter) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	l.do()
	return l.Locker.Acquire(ctx, key, o)
}

// With a lock that excludes nobody nothing is lost either: a write that does not find what was read writes nothing.
// With fencing off in the lab it writes all the same, and loses.
func TestSegmentedDoesNotTrustItsLock(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		s := segmentedOn(t, store, 200, segmented(&local.None{}, 4))
		purchases := buyAtOnce(t, s, buyersOf(1, 1, 2, 3), lab(service.Lab{Hold: time.Millisecond}))
		audit(t, s[0], purchases, 200)

		for try := 1; ; try++ {
			s := segmentedOn(t, store, 200, segmented(&local.None{}, 4))[0]
			var buyers sync.WaitGroup
			for range 30 {
				buyers.Go(func() {
					_, _ = s.sell(t.Context(), lab(service.Lab{Hold: 5 * time.Millisecond, Unfenced: true}))
				})
			}
			buyers.Wait()
			stock, err := s.Stock(t.Context(), "", s.sku)
			if err != nil {
				t.Fatal(err)
			}
			if stock.Quantity+stock.Sold > 200 {
				break // as it should
			}
			if try == 10 {
				t.Errorf("blind writes without a lock lost nothing in %d runs: %+v", try, stock)
				break
			}
		}
	})
}

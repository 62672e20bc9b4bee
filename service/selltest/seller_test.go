package selltest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

// watchdog is a real lock between processes.
func watchdog(t testing.TB, o redislock.WatchdogOptions) lock.Locker {
	t.Helper()
	l := redislock.NewWatchdog(dial(t, servers.Redis(t).Addr), o)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func setnx(t testing.TB, lease time.Duration) lock.Locker {
	t.Helper()
	l := redislock.NewSetNX(dial(t, servers.Redis(t).Addr), redislock.SetNXOptions{Lease: lease})
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A setting is a way to sell on a store that it works on.
type setting struct {
	name   string
	seller func(testing.TB) service.Seller
	store  func(testing.TB) shop
	fenced bool // by a lock that issues fences
	racy   bool
}

func settings() []setting {
	onRedis := func(t testing.TB) shop { return redisStore(t) }
	onMySQL := func(t testing.TB) shop { return mysqlStore(t) }
	under := func(open func(testing.TB) lock.Locker) func(testing.TB) service.Seller {
		return func(t testing.TB) service.Seller { return service.UnderLock(open(t)) }
	}
	none := under(func(testing.TB) lock.Locker { return &local.None{} })
	mutex := under(func(testing.TB) lock.Locker { return &local.Mutex{} })
	remote := under(func(t testing.TB) lock.Locker { return watchdog(t, redislock.WatchdogOptions{}) })
	fixed := func(w service.Seller) func(testing.TB) service.Seller {
		return func(testing.TB) service.Seller { return w }
	}
	merged := func(testing.TB) service.Seller { return service.Merged(service.MergeOptions{}) }
	return []setting{
		{"none on redis", none, onRedis, false, true},
		{"mutex on redis", mutex, onRedis, false, false},
		{"mutex on mysql", mutex, onMySQL, false, false},
		{"watchdog on redis", remote, onRedis, true, false},
		{"watchdog on mysql", remote, onMySQL, true, false},
		{"atomically on redis", fixed(service.Atomically), onRedis, false, false},
		{"atomically on mysql", fixed(service.Atomically), onMySQL, false, false},
		{"merged on redis", merged, onRedis, false, false},
		{"merged on mysql", merged, onMySQL, false, false},
		{"in transaction on mysql", fixed(service.InTransaction), onMySQL, false, false},
	}
}

func everySeller(t *testing.T, test func(t *testing.T, s setting)) {
	for _, s := range settings() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

func TestReceiptSaysWhatHappened(t *testing.T) {
	t.Parallel()
	everySeller(t, func(t *testing.T, in setting) {
		s := stage(t, in.seller(t), in.store(t))
		before, err := s.Stock(t.Context(), "", s.sku)
		if err != nil {
			t.Fatal(err)
		}
		asked := time.Now()
		r, err := s.sell(t.Context(), func(r *service.Request) { r.Quantity = 3 })
		answered := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		if r.SKU != s.sku || r.Quantity != 3 || r.Read != initial || r.Remaining != initial-3 ||
			r.Version != before.Version ||
			r.Epoch != before.Epoch || r.Strategy != "it" || r.Store != "here" || r.Instance != "app-1" ||
			r.RequestID != "r-1" ||
			r.LeaseLost {
			t.Errorf("receipt %+v of stock %+v", r, before)
		}
		if (r.HolderFence > 0) != in.fenced || r.Fence != uint64(r.HolderFence) {
			t.Errorf("fence %d held, %d written; want fences: %t", r.HolderFence, r.Fence, in.fenced)
		}
		if r.Waited < 0 || r.Held < 0 || r.AcquiredAt.Before(asked) || r.ReleasedAt.Before(r.AcquiredAt) ||
			r.ReleasedAt.After(answered) ||
			r.Held != r.ReleasedAt.Sub(r.AcquiredAt) ||
			r.Waited > r.AcquiredAt.Sub(asked) {
			t.Errorf(
				"asked %v, waited %v, from %v to %v held %v, answered %v", asked, r.Waited, r.AcquiredAt,
				r.ReleasedAt, r.Held, answered,
			)
		}
		page, err := s.Orders(t.Context(), "", s.sku, "", 10)
		if err != nil || len(page.Orders) != 1 || page.Next != "" {
			t.Fatalf("orders %+v, %v; want one", page, err)
		}
		want := r.Order
		want.CreatedAt = page.Orders[0].CreatedAt
		if page.Orders[0] != want || page.Orders[0].CreatedAt.Sub(asked).Abs() > time.Minute {
			t.Errorf("order %+v, the receipt says %+v", page.Orders[0], r.Order)
		}
	})
}

func TestSoldOut(t *testing.T) {
	t.Parallel()
	everySeller(t, func(t *testing.T, in setting) {
		s := stage(t, in.seller(t), in.store(t))
		sell := func(quantity int64) error {
			return second(s.sell(t.Context(), func(r *service.Request) { r.Quantity = quantity }))
		}
		soldOut := func(quantity, left int64) {
			t.Helper()
			err := sell(quantity)
			var told *service.SoldOutError
			fails(t, err, all(service.ErrSoldOut))
			if !errors.As(err, &told) || told.Remaining != left {
				t.Errorf("%d of %d: %v, want a SoldOutError that says what is left", quantity, left, err)
			}
		}
		soldOut(initial+1, initial)
		if err := sell(initial); err != nil {
			t.Fatalf("all that there is: %v", err)
		}
		soldOut(1, 0)
		stock, err := s.Stock(t.Context(), "", s.sku)
		if err != nil || stock.Quantity != 0 || stock.Sold != initial {
			t.Errorf("stock %+v, %v", stock, err)
		}
	})
}

// Twice as many buyers as units: all are sold and none twice, except without a lock, which must not be seen here to
// be right.
func TestNobodyOversells(t *testing.T) {
	t.Parallel()
	everySeller(t, func(t *testing.T, in setting) {
		if in.racy {
			t.Skip("it does, on purpose")
		}
		s := stage(t, in.seller(t), in.store(t))
		var sold, soldOut int
		var mu sync.Mutex
		var done sync.WaitGroup
		holds := make([]service.Receipt, 0, initial)
		for range 2 * initial {
			done.Go(func() {
				r, err := s.sell(t.Context())
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					sold++
					holds = append(holds, r)
				case errors.Is(err, service.ErrSoldOut):
					soldOut++
				default:
					t.Error(err)
				}
			})
		}
		done.Wait()
		if sold != initial || soldOut != initial {
			t.Errorf("%d sold, %d sold out; want %d of both", sold, soldOut, initial)
		}
		s.sold(t, initial)
		seen := map[uint64]bool{}
		for _, r := range holds {
			if seen[r.Version] {
				t.Errorf("two orders read version %d", r.Version)
			}
			seen[r.Version] = true
		}
	})
}

// A request that comes with an order of another strategy, or of an epoch that is over, is refused by every way that
// reads first.
func TestAnotherStrategyGuards(t *testing.T) {
	t.Parallel()
	everySeller(t, func(t *testing.T, in setting) {
		s := stage(t, in.seller(t), in.store(t), func(c *service.Config) { c.Strategies["other"] = c.Strategies["it"] })
		if _, err := s.sell(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := s.sell(t.Context(), func(r *service.Request) { r.Strategy = "other" })
		var told *service.GuardError
		fails(t, err, all(service.ErrGuarded))
		if !errors.As(err, &told) || told.Guard != "it" {
			t.Errorf("err = %v, want a GuardError that names the guard", err)
		}
		s.sold(t, 1)
	})
}

func TestStockSetBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	m := &hookStore{shop: redisStore(t)}
	s := stage(t, service.UnderLock(&local.Mutex{}), m)
	m.read = func(context.Context) {
		m.read = nil
		if _, err := m.Set(t.Context(), s.sku, initial); err != nil {
			t.Error(err)
		}
	}
	_, err := s.sell(t.Context())
	fails(t, err, all(service.ErrStockReset))
	s.sold(t, 0)
}

// What the lab's Hold does: the sale stays between read and write that long, on top of the bound that others have.
func TestHoldIsOnTopOfTheWorkBound(t *testing.T) {
	t.Parallel()
	const hold, work = 6 * time.Second, 5 * time.Second
	for _, in := range settings()[1:] {
		if strings.HasPrefix(in.name, "atomically on ") || strings.HasPrefix(in.name, "merged on ") {
			continue // there is no between
		}
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			s := stage(t, in.seller(t), in.store(t), within(work))
			r, err := s.sell(t.Context(), lab(service.Lab{Hold: hold}))
			if err != nil || r.Held < hold {
				t.Errorf("held %v, %v; want %v at least", r.Held, err, hold)
			}
			s.sold(t, 1)
		})
	}
}

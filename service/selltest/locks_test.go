package selltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

// locked sets a scene up whose strategy can be inspected.
func locked(t testing.TB, l lock.Locker, store shop) *scene {
	t.Helper()
	return stage(t, service.UnderLock(l), store, func(c *service.Config) {
		offer := c.Strategies["it"]
		offer.Lock = l
		c.Strategies["it"] = offer
	})
}

// A notifier is a hookStore that can be told of a fence, too.
type notifier struct {
	*hookStore
	service.Fencer
}

func stores() map[string]func(testing.TB) shop {
	return map[string]func(testing.TB) shop{
		"redis": func(t testing.TB) shop { return redisStore(t) },
		"mysql": func(t testing.TB) shop { return mysqlStore(t) },
	}
}

// A holder that is evicted between read and write, and does not know, cannot write, although nobody else has. The
// next one can.
func TestEvictedHolderCannotWrite(t *testing.T) {
	t.Parallel()
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &hookStore{shop: open(t)}
			s := locked(t, setnx(t, time.Minute), notifier{m, m.shop.(service.Fencer)})
			var evicted service.Eviction
			m.read = func(ctx context.Context) {
				m.read = nil
				standing, err := s.Lock(ctx, "it", string(s.sku))
				if err != nil || standing.Holder == nil || standing.Holder.Who != "app-1/r-1" {
					t.Errorf("standing %+v, %v; want it held by app-1/r-1", standing, err)
				}
				if evicted, err = s.Evict(ctx, "it", string(s.sku)); err != nil {
					t.Error(err)
				}
			}
			_, err := s.sell(t.Context())
			fails(t, err, all(service.ErrStaleFence, lock.ErrLost)) // its release finds the loss
			s.sold(t, 0)
			if h := evicted.Holder; h == nil || h.Who != "app-1/r-1" || h.Fence >= evicted.Fence {
				t.Errorf("evicted %+v, with fence %d", h, evicted.Fence)
			}
			if told, here := evicted.Stores["here"]; !here || told != nil {
				t.Errorf("stores %v, want that it was told", evicted.Stores)
			}
			r, err := s.sell(t.Context())
			if err != nil || r.HolderFence < evicted.Fence {
				t.Errorf("the next one: %v, fence %d after %d", err, r.HolderFence, evicted.Fence)
			}
			s.sold(t, 1)
		})
	}
}

// The evicted one gives way to the one that waits, and nothing is lost.
func TestEvictLetsTheNextOneIn(t *testing.T) {
	t.Parallel()
	m := &hookStore{shop: redisStore(t)}
	w := redislock.NewWatchdog(dial(t, servers.Redis(t).Addr), redislock.WatchdogOptions{Lease: 3 * time.Second})
	t.Cleanup(func() { w.Close() })
	s := locked(t, lock.HandOver(w, lock.Bound{}), m)
	reading := make(chan struct{})
	m.read = func(context.Context) { m.read = nil; close(reading) }
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := s.sell(t.Context(), lab(service.Lab{Hold: time.Minute})); first <- err }()
	<-reading
	go func() { _, err := s.sell(t.Context()); second <- err }()
	servertest.Eventually(t, time.Minute, "the second one waits", func() (bool, string) {
		return len(standing(t, s).Waiters) > 0, ""
	})
	if _, err := s.Evict(t.Context(), "it", string(s.sku)); err != nil {
		t.Fatal(err)
	}
	// Both are in one process: the second comes in when the first, at its renewal, has learnt of its loss.
	fails(t, <-first, all(lock.ErrLost))
	if err := <-second; err != nil {
		t.Errorf("the next one: %v", err)
	}
	s.sold(t, 1)
}

func standing(t *testing.T, s *scene) service.Locked {
	t.Helper()
	standing, err := s.Lock(t.Context(), "it", string(s.sku))
	if err != nil {
		t.Fatal(err)
	}
	return standing
}

// A key that is no SKU of the store is evicted from all the same; a stock that another strategy guards is left
// alone, and so is one of a store that is down.
func TestEvictTellsWhichStoresKnow(t *testing.T) {
	t.Parallel()
	s := locked(t, setnx(t, time.Minute), redisStore(t))
	for _, key := range []string{"no-such-sku", "nightly report/eu", string(s.sku) + "#1"} {
		e, err := s.Evict(t.Context(), "it", key)
		if err != nil || len(e.Stores) != 0 || e.Holder != nil || e.Fence == lock.NoFence {
			t.Errorf("%q: %+v, %v", key, e, err)
		}
	}
	if _, err := s.store.Deduct(
		t.Context(),
		service.Order{ID: "x", SKU: s.sku, Quantity: 1, Strategy: "another", CreatedAt: time.Now()},
	); err != nil {
		t.Fatal(err)
	}
	e, err := s.Evict(t.Context(), "it", string(s.sku))
	if err != nil || !errors.Is(e.Stores["here"], service.ErrGuarded) {
		t.Errorf("guarded by another: %+v, %v", e, err)
	}
	s.keeping.turn(t, &driver.DownError{Server: "store", Reason: "gone"})
	if e, err = s.Evict(t.Context(), "it", string(s.sku)); err != nil || !errors.Is(e.Stores["here"], lock.ErrDown) {
		t.Errorf("store down: %+v, %v", e, err)
	}
}

func TestLocksThatCannotBeAsked(t *testing.T) {
	t.Parallel()
	down := &driver.DownError{Server: "lock", Reason: "gone"}
	for _, row := range []struct {
		name          string
		lock          lock.Locker // nil: none
		strategy, key string
		down          error
		inspect       error
		evict         error
	}{
		{
			"no such strategy", &revocableLock{}, "that", "k", nil,
			service.ErrUnknownStrategy, service.ErrUnknownStrategy,
		},
		{"no lock", nil, "it", "k", nil, service.ErrNotInspectable, service.ErrNotInspectable},
		{
			"a lock that does not tell", &revocableLock{}, "it", "k", nil,
			service.ErrNotInspectable, service.ErrNotEvictable,
		},
		{"its server is down", setnx(t, time.Minute), "it", "k", down, lock.ErrDown, lock.ErrDown},
		{"no key", setnx(t, time.Minute), "it", "", nil, errInvalid, errInvalid},
		{"a long key", setnx(t, time.Minute), "it", strings.Repeat("k", service.MaxKey+1), nil, errInvalid, errInvalid},
		{"a key of control characters", setnx(t, time.Minute), "it", "a\nb", nil, errInvalid, errInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := locked(t, row.lock, redisStore(t))
			if row.down != nil {
				s.serving.turn(t, row.down)
			}
			_, inspected := s.Lock(t.Context(), row.strategy, row.key)
			_, evicted := s.Evict(t.Context(), row.strategy, row.key)
			fails(t, sentinel(inspected), all(row.inspect))
			fails(t, sentinel(evicted), all(row.evict))
		})
	}
}

var errInvalid = errors.New("InvalidError")

// sentinel is errInvalid for an InvalidError, which has no sentinel.
func sentinel(err error) error {
	if e := new(service.InvalidError); errors.As(err, &e) {
		return errInvalid
	}
	return err
}

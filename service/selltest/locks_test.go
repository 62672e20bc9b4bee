package selltest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

func setnx(t testing.TB, lease time.Duration) lock.Locker {
	t.Helper()
	l := redislock.NewSetNX(dial(t, servers.Redis(t).Addr), redislock.SetNXOptions{Lease: lease})
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// locked sets a scene up whose strategy can be inspected.
func locked(t testing.TB, l lock.Locker, store shop) *scene {
	t.Helper()
	return stage(t, service.UnderLock(l), store, func(c *service.Config) {
		offer := c.Strategies["it"]
		offer.Lock = l
		c.Strategies["it"] = offer
	})
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
			"no such strategy", &fencedLock{}, "that", "k", nil,
			service.ErrUnknownStrategy, service.ErrUnknownStrategy,
		},
		{"no lock", nil, "it", "k", nil, service.ErrNotInspectable, service.ErrNotInspectable},
		{
			"a lock that does not tell", &fencedLock{}, "it", "k", nil,
			service.ErrNotInspectable, service.ErrNotEvictable,
		},
		{"its server is down", setnx(t, time.Minute), "it", "k", down, lock.ErrDown, lock.ErrDown},
		{"no key", setnx(t, time.Minute), "it", "", nil, service.ErrInvalid, service.ErrInvalid},
		{
			"a long key", setnx(t, time.Minute), "it", strings.Repeat("k", service.MaxKey+1), nil,
			service.ErrInvalid, service.ErrInvalid,
		},
		{
			"a key of control characters", setnx(t, time.Minute), "it", "a\nb", nil,
			service.ErrInvalid, service.ErrInvalid,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := locked(t, row.lock, redisStore(t))
			if row.down != nil {
				s.serving.turn(t, row.down)
			}
			_, inspected := s.Lock(t.Context(), row.strategy, row.key)
			_, evicted := s.Evict(t.Context(), row.strategy, row.key)
			fails(t, inspected, all(row.inspect))
			fails(t, evicted, all(row.evict))
		})
	}
}

// What is no segment has no lock to take away.
func TestEvictNamesASegment(t *testing.T) {
	t.Parallel()
	l := setnx(t, time.Minute)
	s := stage(t, service.Segmented(l, 2), redisStore(t), func(c *service.Config) {
		c.Strategies["it"] = service.StrategyConfig{Seller: service.Segmented(l, 2), Lock: l, Segmented: true}
	})
	for _, suffix := range []string{"", "#0", "#65"} {
		_, err := s.Evict(t.Context(), "it", string(s.sku)+suffix)
		fails(t, err, all(service.ErrInvalid))
	}
}

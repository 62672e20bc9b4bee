package selltest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// counting counts the reads of a store and the acquisitions of a lock.
type counting struct {
	shop
	reads atomic.Int64
	inner lock.Locker
	asked atomic.Int64
	gone  atomic.Bool // the store has lost its data
}

func (c *counting) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	c.reads.Add(1)
	if c.gone.Load() {
		return service.Stock{}, service.ErrUnknownSKU
	}
	return c.shop.Read(ctx, sku)
}

func (c *counting) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	c.asked.Add(1)
	return c.inner.Acquire(ctx, key, o)
}

// The lock of a SKU that the store does not have is not asked for, and that costs a read each time. A SKU that the
// instance has seen costs no further read, until the store says that it has lost it.
func TestOnlyAKnownSKUReachesItsLock(t *testing.T) {
	t.Parallel()
	c := &counting{shop: redisStore(t), inner: &local.Mutex{}}
	s := locked(t, c, c)
	s.Service = service.New(s.Config) // another instance than the one that has set the stock
	asks := func(what string, reads, asked int64) {
		t.Helper()
		if r, a := c.reads.Swap(0), c.asked.Swap(0); r != reads || a != asked {
			t.Errorf("%s: %d reads and %d acquisitions, want %d and %d", what, r, a, reads, asked)
		}
	}
	for n := range 10 {
		_, err := s.sell(t.Context(), func(r *service.Request) { r.SKU = service.SKU(fmt.Sprint("no-such-", n%2)) })
		fails(t, err, all(service.ErrUnknownSKU))
	}
	asks("unknown", 10, 0)
	for range 5 {
		if _, err := s.sell(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	asks("known", 1+5, 5) // the second and later sales read once, in the critical section
	c.gone.Store(true)
	for range 5 {
		_, err := s.sell(t.Context())
		fails(t, err, all(service.ErrUnknownSKU))
	}
	asks("vanished", 5, 1) // by the one that finds out
	c.gone.Store(false)
	if _, err := s.sell(t.Context()); err != nil {
		t.Errorf("after it is back: %v", err)
	}
}

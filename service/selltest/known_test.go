package selltest

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
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

// strange sets up a shop whose lock and store count.
func strange(t *testing.T) (*scene, *counting) {
	t.Helper()
	c := &counting{shop: redisStore(t), inner: &local.Mutex{}}
	s := stage(t, service.UnderLock(c), c, func(config *service.Config) {
		offer := config.Strategies["it"]
		offer.Lock = c
		config.Strategies["it"] = offer
	})
	s.Service = open(t, s.Config) // another instance than the one that has set the stock
	return s, c
}

// The lock of an SKU that the store does not have is never asked for, and that costs one read each time.
func TestUnknownSKUsDoNotReachTheLock(t *testing.T) {
	t.Parallel()
	s, c := strange(t)
	for n := range 10 {
		_, err := s.sell(t.Context(), func(r *service.Request) { r.SKU = service.SKU(fmt.Sprint("no-such-", n%2)) })
		fails(t, err, all(service.ErrUnknownSKU))
	}
	if reads, asked := c.reads.Load(), c.asked.Load(); reads != 10 || asked != 0 {
		t.Errorf("%d reads and %d acquisitions, want 10 and none", reads, asked)
	}
}

// What the instance has seen costs no further read: the second and later sales read once, in the critical section.
func TestKnownSKUsCostNothing(t *testing.T) {
	t.Parallel()
	s, c := strange(t)
	for range 5 {
		if _, err := s.sell(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if reads, asked := c.reads.Load(), c.asked.Load(); reads != 6 || asked != 5 {
		t.Errorf("%d reads and %d acquisitions for 5 sales, want 6 and 5", reads, asked)
	}
}

// A store that has lost an SKU says so itself, though this instance remembers it; from then on the lock is not asked
// for.
func TestAnSKUThatVanishes(t *testing.T) {
	t.Parallel()
	s, c := strange(t)
	if _, err := s.sell(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.gone.Store(true)
	for range 5 {
		_, err := s.sell(t.Context())
		fails(t, err, all(service.ErrUnknownSKU))
	}
	if asked := c.asked.Load(); asked != 2 {
		t.Errorf("%d acquisitions, want 2: one sale, and one that finds out", asked)
	}
	c.gone.Store(false)
	if _, err := s.sell(t.Context()); err != nil {
		t.Errorf("after it is back: %v", err)
	}
}

// A store that is down is no reason to say that an SKU is unknown, nor to ask for its lock.
func TestAStoreThatIsDownKnowsNoSKU(t *testing.T) {
	t.Parallel()
	s, c := strange(t)
	s.keeping.turn(t, &driver.DownError{Server: "store", Reason: "no answer"})
	_, err := s.sell(t.Context())
	fails(t, err, all(lock.ErrDown), service.ErrUnknownSKU)
	if asked := c.asked.Load(); asked != 0 {
		t.Errorf("%d acquisitions, want none", asked)
	}
}

package selltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// mergingUnder runs a test in a bubble with a lock that another holds at first.
func mergingUnder(
	t *testing.T, o service.MergeOptions,
	test func(c *crowd, store *counter, l *local.Mutex, release func()),
) {
	synctest.Test(t, func(t *testing.T) {
		l, store := new(local.Mutex), &counter{}
		c := crowdOf(t, stage(t, service.MergedUnderLock(l, o), store))
		other, err := l.Acquire(t.Context(), string(c.sku), lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		test(c, store, l, func() {
			if err := other.Release(); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		})
		c.all.Wait()
	})
}

func waiters(t *testing.T, l *local.Mutex, sku service.SKU) int {
	t.Helper()
	state, err := lock.Inspect(t.Context(), l, string(sku))
	if err != nil {
		t.Fatal(err)
	}
	return len(state.Waiters)
}

// All who come while the lock is waited for are one batch, and one contender. Who leaves is out at once, also the
// first; who tries once asks for itself.
func TestOneTurnSellsForAllWhoWait(t *testing.T) {
	mergingUnder(t, service.MergeOptions{Limit: 3}, func(c *crowd, store *counter, l *local.Mutex, release func()) {
		for _, id := range []string{"first", "a", "b", "c", "d"} {
			c.come(id)
		}
		c.come("short", wait(time.Second))
		c.come("once", wait(0))
		_, err := c.answer("once")
		fails(c.t, err, all(lock.ErrHeld), lock.ErrOverloaded)
		gone := errors.New("the client went away")
		c.leave["first"](gone)
		synctest.Wait()
		_, err = c.answer("first")
		fails(c.t, err, all(lock.ErrHeld, gone))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		_, err = c.answer("short")
		fails(c.t, err, all(lock.ErrHeld, context.DeadlineExceeded), lock.ErrDown)
		if n := waiters(c.t, l, c.sku); n != 1 || store.reads != 0 {
			c.t.Errorf("%d wait for the lock and %d reads, want 1 and none", n, store.reads)
		}
		release()
		if want := []string{"a b c", "d"}; !slices.Equal(store.batches, want) || store.reads != 2 || len(c.sold) != 4 {
			c.t.Errorf("batches %q after %d reads, want %q after 2; %v", store.batches, store.reads, want, c.errs)
		}
	})
}

// The last one that leaves takes the place in the lock's queue with it, and the next to come gets another.
func TestNobodyWaitsForALockThatNobodyWants(t *testing.T) {
	mergingUnder(t, service.MergeOptions{}, func(c *crowd, store *counter, l *local.Mutex, release func()) {
		c.come("a")
		c.leave["a"](nil)
		synctest.Wait()
		if n := waiters(c.t, l, c.sku); n != 0 {
			c.t.Errorf("%d wait for the lock", n)
		}
		c.come("b")
		release()
		if want := []string{"b"}; !slices.Equal(store.batches, want) || len(c.sold) != 1 {
			c.t.Errorf("batches %q, want %q; %v", store.batches, want, c.errs)
		}
	})
}

// A batch thinks once, for as long as the longest of its sales asks.
func TestABatchThinksOnce(t *testing.T) {
	mergingUnder(t, service.MergeOptions{}, func(c *crowd, store *counter, _ *local.Mutex, release func()) {
		for i := range 5 {
			c.come(fmt.Sprint(i), lab(service.Lab{Hold: time.Duration(i) * time.Second}))
		}
		began := time.Now()
		release()
		c.all.Wait()
		if took := time.Since(began); took != 4*time.Second || len(store.batches) != 1 || len(c.sold) != 5 {
			c.t.Errorf("%v for batches %q, want 4s for one", took, store.batches)
		}
		for id, r := range c.sold {
			if r.Held != 4*time.Second {
				c.t.Errorf("sale %s held for %v", id, r.Held)
			}
		}
	})
}

// Somebody whose lease is over writes between the read and the write of a batch: all of it is refused, and nothing is
// sold twice. The fence of a batch is that of its turn.
func TestABatchThatWasOvertaken(t *testing.T) {
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			real := open(t)
			hook := &hookStore{shop: real}
			s := stage(t, service.MergedUnderLock(&revocableLock{}, service.MergeOptions{}), hook)
			first, err := s.sell(t.Context())
			if err != nil || first.Fence == 0 || first.HolderFence != lock.Fence(first.Fence) {
				t.Fatalf("%+v, %v", first, err)
			}
			hook.read = func(ctx context.Context) {
				hook.read = nil
				late := first.Order
				late.ID += "-late"
				stock, err := real.Read(ctx, s.sku)
				late.Read, late.Remaining, late.Version = stock.Quantity, stock.Quantity-1, stock.Version
				if err = errors.Join(err, real.Write(ctx, late)); err != nil {
					t.Error(err)
				}
			}
			_, err = s.sell(t.Context())
			fails(t, err, all(service.ErrOvertaken), service.ErrConflict)
			s.sold(t, 2)
			second, err := s.sell(t.Context())
			if err != nil || second.Fence <= first.Fence || second.Read != initial-2 {
				t.Errorf("%+v, %v", second, err)
			}
		})
	}
}

// A lease that is lost before the write ends the batch; one that is lost after it is told.
func TestABatchThatLosesItsLease(t *testing.T) {
	lost := errors.New("evicted")
	l := &revocableLock{}
	hook := &hookStore{shop: redisStore(t)}
	s := stage(t, service.MergedUnderLock(l, service.MergeOptions{}), hook)
	hook.read = func(ctx context.Context) { hook.read = nil; l.evict(lost); <-ctx.Done() }
	_, err := s.sell(t.Context())
	fails(t, err, all(lock.ErrLost, lost))
	s.sold(t, 0)
	hook.read = func(context.Context) {}
	after := &evictAfter{hookStore: hook, evict: func() { l.evict(lost) }}
	s.Stores["here"] = service.StoreConfig{Store: after, Needs: s.keeping}
	r, err := s.sell(t.Context())
	if err != nil || !r.LeaseLost {
		t.Errorf("%+v, %v; want it sold, and the loss told", r, err)
	}
	s.sold(t, 1)
}

type evictAfter struct {
	*hookStore
	evict func()
}

func (e *evictAfter) Batch(ctx context.Context, version uint64, orders []service.Order) ([]service.BatchResult, error) {
	results, err := e.shop.Batch(ctx, version, orders)
	e.evict()
	return results, err
}

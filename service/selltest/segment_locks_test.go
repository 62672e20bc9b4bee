package selltest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

// In between, something is done once before the first look at a segmented stock, or before the first write to it.
type between struct {
	shop
	service.Segmenter
	service.Fencer
	look, write func(context.Context)
}

func newBetween(store shop) *between {
	return &between{shop: store, Segmenter: store.(service.Segmenter), Fencer: store.(service.Fencer)}
}

func once(do *func(context.Context), ctx context.Context) {
	if f := *do; f != nil {
		*do = nil
		f(ctx)
	}
}

func (b *between) Segments(ctx context.Context, sku service.SKU) (service.Segments, error) {
	once(&b.look, ctx)
	return b.Segmenter.Segments(ctx, sku)
}

func (b *between) Swap(ctx context.Context, o service.Order) error {
	once(&b.write, ctx)
	return b.Segmenter.Swap(ctx, o)
}

// lockedSegments sets a scene up whose strategy has a lock for each segment.
func lockedSegments(t testing.TB, l lock.Locker, segments int, store shop) *scene {
	t.Helper()
	return stage(t, segmented(l, segments), store, func(c *service.Config) {
		offer := c.Strategies["it"]
		offer.Lock, offer.Segmented = l, true
		c.Strategies["it"] = offer
	})
}

// A holder of a segment that is evicted, and does not know, sells nothing, although nobody else has: neither from a
// segment that it has looked at, nor from one that was not there yet when it was evicted. The next one can.
func TestEvictedHolderOfASegmentCannotWrite(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		for _, when := range []string{"before the first look", "before the write"} {
			t.Run(when, func(t *testing.T) {
				b := newBetween(store)
				s := lockedSegments(t, setnx(t, time.Minute), 1, b)
				key := string(s.sku) + "#1"
				var evicted service.Eviction
				act := func(ctx context.Context) {
					standing, err := s.Lock(ctx, "it", key)
					if err != nil || standing.Holder == nil || standing.Holder.Who != "app-1/r-1" {
						t.Errorf("standing %+v, %v; want it held by app-1/r-1", standing, err)
					}
					if evicted, err = s.Evict(ctx, "it", key); err != nil {
						t.Error(err)
					}
				}
				if when == "before the write" {
					b.write = act
				} else {
					b.look = act
				}
				_, err := s.sell(t.Context())
				fails(t, err, all(service.ErrStaleFence, lock.ErrLost)) // its release finds the loss
				s.sold(t, 0)
				if told, here := evicted.Stores["here"]; !here || told != nil || evicted.Holder == nil {
					t.Errorf("%+v, want that the store was told", evicted)
				}
				r, err := s.sell(t.Context())
				if err != nil || r.HolderFence < evicted.Fence {
					t.Errorf("the next one: %v, fence %d after %d", err, r.HolderFence, evicted.Fence)
				}
				s.sold(t, 1)
			})
		}
	})
}

// The fence of one segment is nothing to the others: who holds another one sells.
func TestEvictingFromASegmentLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		b := newBetween(store)
		s := lockedSegments(t, setnx(t, time.Minute), 1, b)
		b.write = func(ctx context.Context) {
			e, err := s.Evict(ctx, "it", string(s.sku)+"#2")
			if err != nil || e.Holder != nil || e.Stores["here"] != nil {
				t.Errorf("%+v, %v", e, err)
			}
		}
		if _, err := s.sell(t.Context()); err != nil {
			t.Error(err)
		}
		s.sold(t, 1)
	})
}

// Asked for the SKU, every segment that somebody holds or waits for is shown, in whatever number they are; asked
// for one, that one.
func TestLocksOfSegments(t *testing.T) {
	t.Parallel()
	l := lock.HandOver(watchdog(t, redislock.WatchdogOptions{}), lock.Bound{})
	s := lockedSegments(t, l, 2, redisStore(t))
	if seen, err := s.Lock(
		t.Context(), "it", string(s.sku),
	); err != nil || seen.Holder != nil || len(seen.Segments) != 0 ||
		seen.Local {
		t.Errorf("nobody holds: %+v, %v", seen, err)
	}
	held := make(map[int]*lock.Lease)
	for _, n := range []int{2, 3, service.MaxSegments} { // of a process with more segments than this one
		lease, err := l.Acquire(t.Context(), fmt.Sprint(s.sku, "#", n), lock.Options{Owner: fmt.Sprint("app-2/", n)})
		if err != nil {
			t.Fatal(err)
		}
		held[n] = lease
	}
	left := make(chan error, 1)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		_, err := l.Acquire(ctx, string(s.sku)+"#3", lock.Options{Owner: "app-2/w"})
		left <- err
	}()
	var seen service.Locked
	for deadline := time.Now().Add(time.Minute); ; {
		var err error
		if seen, err = s.Lock(t.Context(), "it", string(s.sku)); err != nil {
			t.Fatal(err)
		}
		if len(seen.Segments) == 3 && len(seen.Segments[1].Waiters) == 1 || time.Now().After(deadline) {
			break
		}
	}
	if seen.Holder != nil || len(seen.Segments) != 3 {
		t.Fatalf("%+v, want three segments", seen)
	}
	for i, n := range []int{2, 3, service.MaxSegments} {
		at := seen.Segments[i]
		if at.Segment != n || at.Key != fmt.Sprint(s.sku, "#", n) || at.Holder == nil ||
			at.Holder.Who != fmt.Sprint("app-2/", n) ||
			at.Holder.Fence != held[n].Fence() {
			t.Errorf("segment %d is %+v, held by %+v", n, at, at.Holder)
		}
	}
	if w := seen.Segments[1].Waiters; len(w) != 1 || w[0].Who != "app-2/w" {
		t.Errorf("waiters %+v", w)
	}
	one, err := s.Lock(t.Context(), "it", string(s.sku)+"#3")
	if err != nil || one.Holder == nil || len(one.Waiters) != 1 || one.Segments != nil {
		t.Errorf("segment 3 alone: %+v, %v", one, err)
	}
	leave()
	if err := <-left; !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	for _, lease := range held {
		if err := lease.Release(); err != nil {
			t.Error(err)
		}
	}
}

// What is no segment has no lock to take away.
func TestEvictNamesASegment(t *testing.T) {
	t.Parallel()
	s := lockedSegments(t, setnx(t, time.Minute), 2, redisStore(t))
	for _, suffix := range []string{"", "#", "#0", "#+1", "#01", "#65", "#1#1", "/1"} {
		_, err := s.Evict(t.Context(), "it", string(s.sku)+suffix)
		fails(t, sentinel(err), all(errInvalid))
	}
}

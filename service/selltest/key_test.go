package selltest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

// key makes the idempotency key of a request of this test.
func key(t *testing.T, asked string) func(*service.Request) {
	t.Helper()
	pad := func(s string) string {
		s = strings.Repeat("-", service.KeyLength) + digest(s)
		return s[len(s)-service.KeyLength:]
	}
	return func(r *service.Request) { r.Key = service.Key{ID: pad(t.Name()), Fingerprint: pad(asked)} }
}

func keyReplays(t *testing.T, w *way) {
	s, _ := w.stage(t)
	mine := key(t, "one")
	letGo := s.inside(t, service.Writes, mine)
	_, err := s.sell(t.Context(), mine)
	fails(t, err, all(service.ErrKeyInFlight))
	done := letGo()
	first := done.receipt
	if done.err != nil || first.Replayed {
		t.Fatalf("first: %+v, %v", first, done.err)
	}
	replays := func() {
		t.Helper()
		again, err := s.sell(t.Context(), mine, func(r *service.Request) { r.RequestID = "r-2" })
		if err != nil || !again.Replayed || again.ID != first.ID || again.Read != first.Read ||
			again.Remaining != first.Remaining || again.Version != first.Version || again.RequestID != "r-1" {
			t.Errorf("again %+v, %v\nfirst %+v", again, err, first)
		}
	}
	replays()
	s.sold(t, 1)
	for range initial - 1 {
		if _, err := s.sell(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.sell(t.Context())
	fails(t, err, all(service.ErrSoldOut))
	replays()
	_, err = s.sell(t.Context(), key(t, "two"))
	fails(t, err, all(service.ErrKeyReused))
	s.sold(t, initial)
}

func keySellsOnce(t *testing.T, w *way) {
	one, other := w.stage(t)
	var fresh atomic.Int64
	var sending sync.WaitGroup
	for i := range 10 {
		sending.Go(func() {
			receipt, err := []*scene{one, other}[i%2].sell(t.Context(), key(t, "one"))
			switch {
			case err != nil && !errors.Is(err, service.ErrKeyInFlight):
				t.Error(err)
			case err == nil && !receipt.Replayed:
				fresh.Add(1)
			}
		})
	}
	sending.Wait()
	if fresh.Load() != 1 {
		t.Errorf("%d sold, want one", fresh.Load())
	}
	one.sold(t, 1)
}

// After an unknown outcome the same key tells, whether the order was written or not.
func TestTheKeySettlesAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, written := range []bool{true, false} {
		t.Run(fmt.Sprint(written), func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			unknown := fmt.Errorf("the test says so: %w", service.ErrOutcomeUnknown)
			store := &hookStore{shop: redisStore(t)}
			store.write = func(_ context.Context, before bool) error {
				if broken.Load() && before != written {
					return unknown
				}
				return nil
			}
			s := stage(t, service.UnderLock(&local.Mutex{}), store)
			mine := key(t, "one")
			broken.Store(true)
			r, err := s.sell(t.Context(), mine)
			if written {
				// The store answers at once that the order is there: that is the answer of the request, too.
				if err != nil || !r.Replayed {
					t.Errorf("unknown, and written: %+v, %v", r, err)
				}
			} else {
				fails(t, err, all(service.ErrOutcomeUnknown))
			}
			broken.Store(false)
			if r, err := s.sell(t.Context(), mine); err != nil || r.Replayed != written {
				t.Errorf("again: %+v, %v", r, err)
			}
			s.sold(t, 1)
		})
	}
}

// A refusal leaves the key free, and a server that is down does not hide a reply that is there.
func TestKeyAfterRefusalAndOutage(t *testing.T) {
	t.Parallel()
	s := stage(t, service.UnderLock(&local.Mutex{}), redisStore(t))
	mine := key(t, "one")
	_, err := s.sell(t.Context(), mine, func(r *service.Request) { r.Quantity = initial + 1 })
	fails(t, err, all(service.ErrSoldOut))
	first, err := s.sell(t.Context(), mine)
	if err != nil || first.Replayed {
		t.Fatalf("after a refusal: %+v, %v", first, err)
	}
	down := &driver.DownError{Server: "lock", Reason: "the test says so"}
	s.serving.turn(t, down)
	if r, err := s.sell(t.Context(), mine); err != nil || !r.Replayed || r.ID != first.ID {
		t.Errorf("the lock's server is down: %+v, %v", r, err)
	}
	s.serving.turn(t, nil)
	s.keeping.turn(t, down)
	_, err = s.sell(t.Context(), mine)
	fails(t, err, all(lock.ErrDown))
	s.keeping.turn(t, nil)
	s.sold(t, 1)
}

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

// every seller, and the stores that it works on.
func sellers() map[string]func() service.Seller {
	return map[string]func() service.Seller{
		"under a lock": func() service.Seller { return service.UnderLock(&local.Mutex{}) },
		"fenced":       func() service.Seller { return service.UnderLock(&revocableLock{}) },
		"no lock":      func() service.Seller { return service.UnderLock(local.None{}) },
		"optimistic":   func() service.Seller { return service.Optimistically(service.OptimisticOptions{}) },
		"atomic":       func() service.Seller { return service.Atomically },
		"merged":       func() service.Seller { return service.Merged(service.MergeOptions{}) },
		"segmented": func() service.Seller {
			return service.Segmented(&local.Mutex{}, service.SegmentedOptions{Segments: 4})
		},
		"in a transaction": func() service.Seller { return service.InTransaction },
	}
}

// A request that is sent again with its key is not sold again, by any seller, on any store, also when nothing is left.
func TestTheSameKeySellsOnce(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis", "mysql"} {
		for name, seller := range sellers() {
			if name == "in a transaction" && store == "redis" {
				continue
			}
			t.Run(store+", "+name, func(t *testing.T) {
				t.Parallel()
				var kept shop = redisStore(t)
				if store == "mysql" {
					kept = mysqlStore(t)
				}
				s := stage(t, seller(), kept)
				mine := key(t, "one")
				first, err := s.sell(t.Context(), mine)
				if err != nil || first.Replayed {
					t.Fatalf("first: %+v, %v", first, err)
				}
				for range 2 {
					again, err := s.sell(t.Context(), mine, func(r *service.Request) { r.RequestID = "r-2" })
					if err != nil || !again.Replayed || again.ID != first.ID || again.Read != first.Read ||
						again.Remaining != first.Remaining || again.Version != first.Version ||
						again.RequestID != "r-1" {
						t.Errorf("again %+v, %v\nfirst %+v", again, err, first)
					}
					s.sold(t, 1)
				}
				// With nothing left a request without the key is refused, and this one is not.
				for range initial - 1 {
					if _, err := s.sell(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				_, err = s.sell(t.Context())
				fails(t, err, all(service.ErrSoldOut))
				if again, err := s.sell(t.Context(), mine); err != nil || !again.Replayed || again.ID != first.ID {
					t.Errorf("when all is sold: %+v, %v", again, err)
				}
				_, err = s.sell(t.Context(), key(t, "two"))
				fails(t, err, all(service.ErrKeyReused))
				s.sold(t, initial)
			})
		}
	}
}

// Two instances without any lock lose updates, but never sell one key twice.
func TestOneKeyOnTwoInstances(t *testing.T) {
	t.Parallel()
	for _, store := range []string{"redis", "mysql"} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			var kept shop = redisStore(t)
			if store == "mysql" {
				kept = mysqlStore(t)
			}
			s := stage(t, service.UnderLock(local.None{}), kept)
			instances := []*service.Service{s.Service, open(t, s.Config)}
			var fresh, replayed, underway atomic.Int64
			var wg sync.WaitGroup
			for i := range 30 {
				wg.Go(func() {
					req := service.Request{Strategy: "it", SKU: s.sku, Quantity: 1, RequestID: fmt.Sprint(i)}
					key(t, "one")(&req)
					receipt, err := instances[i%2].Deduct(t.Context(), req)
					switch {
					case errors.Is(err, service.ErrKeyInFlight):
						underway.Add(1)
					case err != nil:
						t.Error(err)
					case receipt.Replayed:
						replayed.Add(1)
					default:
						fresh.Add(1)
					}
				})
			}
			wg.Wait()
			if fresh.Load() != 1 {
				t.Errorf("%d sold, %d replayed, %d under way; want one sold",
					fresh.Load(), replayed.Load(), underway.Load())
			}
			s.sold(t, 1)
		})
	}
}

// While a request is under way another with its key is told so, and a third one after it gets its reply.
func TestKeyInFlight(t *testing.T) {
	t.Parallel()
	within, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	store := &hookStore{shop: redisStore(t), read: func(context.Context) {
		once.Do(func() {
			close(within)
			<-goOn
		})
	}}
	s := stage(t, service.UnderLock(local.None{}), store)
	mine := key(t, "one")
	var wg sync.WaitGroup
	wg.Go(func() {
		if r, err := s.sell(t.Context(), mine); err != nil || r.Replayed {
			t.Errorf("first: %+v, %v", r, err)
		}
	})
	<-within
	_, err := s.sell(t.Context(), mine)
	fails(t, err, all(service.ErrKeyInFlight))
	close(goOn)
	wg.Wait()
	if r, err := s.sell(t.Context(), mine); err != nil || !r.Replayed {
		t.Errorf("afterwards: %+v, %v", r, err)
	}
	s.sold(t, 1)
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

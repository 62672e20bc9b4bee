package selltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/lock/redislock"
	"example.com/stock/service"
)

func TestSegmentedSellsEverythingOnce(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		for name, ways := range map[string]func(t *testing.T) []service.Seller{
			"mutex": func(*testing.T) []service.Seller { return []service.Seller{segmented(&local.Mutex{}, 0)} },
			"one segment": func(*testing.T) []service.Seller {
				return []service.Seller{segmented(&local.Mutex{}, 1)}
			},
			"setnx": func(t *testing.T) []service.Seller {
				return []service.Seller{segmented(setnx(t, time.Minute), 8), segmented(setnx(t, time.Minute), 8)}
			},
			"watchdog": func(t *testing.T) []service.Seller {
				return []service.Seller{
					segmented(watchdog(t, redislock.WatchdogOptions{}), 8),
					segmented(watchdog(t, redislock.WatchdogOptions{}), 8),
				}
			},
			"handed over": func(t *testing.T) []service.Seller {
				handedOver := func() lock.Locker {
					return lock.HandOver(watchdog(t, redislock.WatchdogOptions{}), lock.Bound{})
				}
				return []service.Seller{segmented(handedOver(), 8), segmented(handedOver(), 8)}
			},
			// As while the number is being changed, instance by instance.
			"different numbers": func(t *testing.T) []service.Seller {
				return []service.Seller{
					segmented(watchdog(t, redislock.WatchdogOptions{}), 8),
					segmented(watchdog(t, redislock.WatchdogOptions{}), 3),
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				made := ways(t)
				scenes := segmentedOn(t, store, 200, made...)
				purchases := buyAtOnce(t, scenes, buyersOf(len(made), 1))
				audit(t, scenes[0], purchases, 200)
				if stock, _ := scenes[0].Stock(t.Context(), "", scenes[0].sku); stock.Quantity != 0 {
					t.Errorf("%d left, want none: everybody wants one", stock.Quantity)
				}
			})
		}
	})
}

// The tail: what is left is in fragments that nobody's quantity fits into, and is sold all the same, until the
// total is too small.
func TestSegmentedTail(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		for round := range 4 {
			for _, quantities := range [][]int64{{1, 2, 3, 4, 5, 6, 7}, {7, 5, 3}, {7}, {100}, {30, 1}} {
				t.Run(fmt.Sprint(quantities, round), func(t *testing.T) {
					ways := []service.Seller{
						segmented(watchdog(t, redislock.WatchdogOptions{}), 8),
						segmented(watchdog(t, redislock.WatchdogOptions{}), 8),
					}
					scenes := segmentedOn(t, store, 100, ways...)
					purchases := buyAtOnce(t, scenes, buyersOf(len(ways), quantities...))
					audit(t, scenes[0], purchases, 100)
					stock, err := scenes[0].Stock(t.Context(), "", scenes[0].sku)
					if least := slices.Min(quantities); err != nil || stock.Quantity >= least {
						t.Errorf(
							"%d left, %v; everybody was told sold out, and somebody wanted %d", stock.Quantity,
							err, least,
						)
					}
				})
			}
		}
	})
}

// Stock in fragments, one unit in each of eight segments: whoever wants several gets them, whichever segment it
// begins at.
func TestSegmentedGathersFragments(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		for wanted := int64(1); wanted <= 9; wanted++ {
			scenes := segmentedOn(t, store, 8, segmented(&local.Mutex{}, 8))
			s := scenes[0]
			for n := 1; n <= 8; n++ {
				view, err := store.(service.Segmenter).Segments(t.Context(), s.sku)
				if err == nil {
					err = store.(service.Segmenter).Refill(t.Context(), service.Refill{
						SKU: s.sku, Epoch: view.Epoch, Strategy: "it", Into: view.Row(n), Reserve: 1,
					})
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			_, err := s.sell(t.Context(), func(r *service.Request) { r.Quantity = wanted })
			if wanted <= 8 && err != nil || wanted > 8 && !errors.Is(err, service.ErrSoldOut) {
				t.Errorf("%d of 8 fragments: %v", wanted, err)
			}
			purchases := buyAtOnce(t, scenes, []buyer{{1, 0}})
			if want := max(8-wanted, 0); wanted <= 8 && int64(len(purchases))-1 != want {
				t.Errorf("after %d of 8 fragments %d more were sold, want %d", wanted, len(purchases)-1, want)
			}
		}
	})
}

// Setting the stock in the middle of it all: of every epoch no more is sold than was in stock.
func TestSegmentedStockIsSetWhileItSells(t *testing.T) {
	t.Parallel()
	bothStores(t, func(t *testing.T, store shop) {
		ways := []service.Seller{
			segmented(watchdog(t, redislock.WatchdogOptions{}), 8),
			segmented(watchdog(t, redislock.WatchdogOptions{}), 8),
		}
		scenes := segmentedOn(t, store, 60, ways...)
		s := scenes[0]
		var mu sync.Mutex
		sold := map[uint64]int64{}
		stop := make(chan struct{})
		var buyers sync.WaitGroup
		for i := range 12 {
			buyers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					r, err := scenes[i%2].sell(t.Context(), func(r *service.Request) { r.Quantity = int64(1 + i%3) })
					switch {
					case err == nil:
						mu.Lock()
						sold[r.Epoch] += r.Quantity
						mu.Unlock()
					case !errors.Is(err, service.ErrSoldOut) && !errors.Is(err, service.ErrStockReset):
						t.Error(err)
						return
					}
				}
			})
		}
		var last uint64
		for range 8 {
			// Until some of this epoch are sold: then setting it again has something to interrupt.
			stock, err := s.Stock(t.Context(), "", s.sku)
			deadline := time.Now().Add(time.Minute)
			for err == nil && stock.Sold < 10 && time.Now().Before(deadline) {
				stock, err = s.Stock(t.Context(), "", s.sku)
			}
			if err == nil {
				stock, err = s.SetStock(t.Context(), "", s.sku, 60)
			}
			if err != nil {
				t.Fatal(err)
			}
			last = stock.Epoch
		}
		close(stop)
		buyers.Wait()
		for epoch, units := range sold {
			if units > 60 {
				t.Errorf("epoch %d: %d units sold of 60", epoch, units)
			}
		}
		if stock, err := s.Stock(
			t.Context(), "", s.sku,
		); err != nil || stock.Epoch != last || stock.Quantity+stock.Sold != 60 ||
			stock.Sold != sold[last] {
			t.Errorf("%+v, %v; %d were accepted", stock, err, sold[last])
		}
	})
}

// One try each: busy means that every segment was held, and not only the first.
func TestSegmentedTriesOnce(t *testing.T) {
	t.Parallel()
	var l local.Mutex
	s := segmentedOn(t, redisStore(t), 10, segmented(&l, 4))[0]
	var held []*lock.Lease
	for n := 1; n <= 4; n++ {
		lease, err := l.Acquire(t.Context(), fmt.Sprintf("%s#%d", s.sku, n), lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, lease)
	}
	_, err := s.sell(t.Context(), wait(0))
	fails(t, err, all(lock.ErrHeld), context.DeadlineExceeded)
	_, err = s.sell(t.Context(), wait(time.Second))
	fails(t, err, all(lock.ErrHeld, context.DeadlineExceeded), lock.ErrDown)
	if err := held[2].Release(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if r, err := s.sell(t.Context(), wait(0)); err != nil || r.Segment != 3 {
			t.Errorf("segment %d, %v; want the one that is free", r.Segment, err)
		}
	}
	// The units of the others may be wanted, and then it is busy, and not sold out.
	_, err = s.sell(t.Context(), wait(0), func(r *service.Request) { r.Quantity = 6 })
	if err != nil && !errors.Is(err, lock.ErrHeld) {
		t.Errorf("err = %v", err)
	}
	for _, lease := range held {
		_ = lease.Release()
	}
	if _, err := s.sell(t.Context(), func(r *service.Request) { r.Quantity = 1 }); err != nil &&
		!errors.Is(err, service.ErrSoldOut) {
		t.Error(err)
	}
}

// An asking lock notes who asked for what while how many were held.
type asking struct {
	lock.Locker
	asked []string
}

func (a *asking) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	a.asked = append(a.asked, key)
	return a.Locker.Acquire(ctx, key, o)
}

// Fragments are moved with the locks of all of them in hand, and these are asked for in rising order.
func TestSegmentedGathersUnderTheirLocks(t *testing.T) {
	store, l := redisStore(t), &asking{Locker: &local.Mutex{}}
	s := segmentedOn(t, store, 8, segmented(l, 8))[0]
	for n, quantity := range []int64{1, 1, 3, 2, 1} {
		view, err := store.Segments(t.Context(), s.sku)
		if err == nil {
			err = store.Refill(t.Context(), service.Refill{
				SKU: s.sku, Epoch: view.Epoch, Strategy: "it", Into: view.Row(n + 1), Reserve: quantity,
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.sell(t.Context(), func(r *service.Request) { r.Quantity = 8 }); err != nil {
		t.Fatal(err)
	}
	from := slices.Index(l.asked, string(s.sku)+"#1")
	if from < 0 || len(l.asked[from:]) != 5 || !slices.IsSorted(l.asked[from:]) {
		t.Errorf("asked for %q, want #1 to #5 in the end, in that order", l.asked)
	}
}

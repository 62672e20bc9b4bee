package selltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

func segmented(l lock.Locker, k int) service.Seller {
	return service.Segmented(l, service.SegmentedOptions{Segments: k})
}

// Instances of different numbers of segments, as while the number is being changed, sell until the total is too small,
// whatever is left in fragments. They need not trust their lock: a write that does not find what was read writes
// nothing.
func TestSegmentedSellsTheTail(t *testing.T) {
	t.Parallel()
	for on, store := range map[string]shop{"redis": redisStore(t), "mysql": mysqlStore(t)} {
		for name, l := range map[string]lock.Locker{"mutex": &local.Mutex{}, "none": &local.None{}} {
			for _, quantities := range [][]int64{{1, 2, 3, 4, 5, 6, 7}, {7, 5, 3}, {30, 1}} {
				t.Run(fmt.Sprint(on, name, quantities), func(t *testing.T) {
					t.Parallel()
					scenes := []*scene{stage(t, segmented(l, 8), store), stage(t, segmented(l, 3), store)}
					if _, err := scenes[0].SetStock(t.Context(), "", scenes[0].sku, 100); err != nil {
						t.Fatal(err)
					}
					purchases := buyAtOnce(t, scenes, buyersOf(14, 2, quantities...))
					audit(t, scenes[0], purchases, 100)
					stock, err := scenes[0].Stock(t.Context(), "", scenes[0].sku)
					if least := slices.Min(quantities); err != nil || stock.Quantity >= least {
						t.Errorf("%d left, %v; somebody wanted %d, and was told sold out", stock.Quantity, err, least)
					}
				})
			}
		}
	}
}

// A client that goes away before any of the locks that a sale from fragments takes leaves every unit where it can be
// sold.
func TestSegmentedLeftAtEveryLock(t *testing.T) {
	t.Parallel()
	store := redisStore(t)
	for at, left := 1, true; left; at++ {
		ctx, leave := context.WithCancel(t.Context())
		calls := 0
		s := stage(t, segmented(&lockedAfter{&local.Mutex{}, func() {
			if calls++; calls == at {
				leave()
			}
		}}, 8), store)
		if _, err := s.SetStock(t.Context(), "", s.sku, 16); err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= 8; n++ { // two units in each
			view, err := store.Segments(t.Context(), s.sku)
			if err == nil {
				err = store.Refill(t.Context(),
					service.Refill{SKU: s.sku, Epoch: view.Epoch, Strategy: "it", Into: view.Row(n), Reserve: 2})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		_, err := s.sell(ctx, quantity(5))
		left = ctx.Err() != nil
		leave()
		stock, told := s.Stock(t.Context(), "", s.sku)
		if told != nil || stock.Quantity+stock.Sold != 16 || (err == nil) != (stock.Sold == 5) ||
			err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("left at lock %d: %v, %+v, %v", at, err, stock, told)
		}
		if _, err := s.sell(t.Context(), quantity(stock.Quantity)); err != nil {
			t.Errorf("left at lock %d: the rest is not sold: %v", at, err)
		}
	}
}

// lockedAfter does something each time before a lock is asked for.
type lockedAfter struct {
	lock.Locker
	do func()
}

func (l *lockedAfter) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	l.do()
	return l.Locker.Acquire(ctx, key, o)
}

package selltest

import (
	"context"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// A comparing store is a hookStore that can also compare and swap, as the real ones can.
type comparing struct {
	*hookStore
	service.Swapper
}

// The other half of the picture: the first holder was paused before it read, and wakes when the second has read and
// not written yet. The store has not seen the second's fence, and takes the first one's write. It is the second's
// that must be refused, or it loses the first's.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		lab        service.Lab
		err        error
		left, sold int64
	}{
		"fenced":     {service.Lab{}, service.ErrOvertaken, initial - 1, 1},
		"not fenced": {service.Lab{Unfenced: true}, nil, initial - 1, 2}, // 10 - 2 is not 9
	} {
		t.Run(name, func(t *testing.T) {
			bothStores(t, func(t *testing.T, store shop) {
				m := &hookStore{shop: store}
				s := stage(t, service.UnderLock(&revocableLock{fence: 100}), comparing{m, store.(service.Swapper)})
				m.read = func(ctx context.Context) {
					m.read = nil
					seen, err := store.Read(ctx, s.sku)
					if err != nil {
						t.Fatal(err)
					}
					late := service.Order{
						ID: string(
							s.sku,
						) + "-late",
						CreatedAt: time.Now(),
						SKU:       s.sku,
						Quantity:  1,
						Read:      seen.Quantity,
						Remaining: seen.Quantity - 1,
						Version:   seen.Version,
						Epoch:     seen.Epoch,
						Strategy:  "it",
						Fence:     7,
					}
					if err := store.(service.Swapper).Swap(ctx, late); err != nil {
						t.Errorf("the first holder: %v", err)
					}
				}
				_, err := s.sell(t.Context(), lab(row.lab))
				if row.err == nil && err != nil {
					t.Errorf("the second holder: %v", err)
				}
				if row.err != nil {
					fails(t, err, all(row.err), service.ErrStaleFence, lock.ErrLost)
				}
				s.left(t, row.left, row.sold)
			})
		})
	}
}

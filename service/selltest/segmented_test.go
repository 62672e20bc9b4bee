package selltest

import (
	"fmt"
	"slices"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/local"
	"example.com/stock/service"
)

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
					scenes := []*scene{
						stage(t, service.Segmented(l, 8), store), stage(t, service.Segmented(l, 3), store),
					}
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

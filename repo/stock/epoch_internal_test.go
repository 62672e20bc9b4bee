package stock

import (
	"errors"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"example.com/stock/repo"
	"example.com/stock/service"
)

// Whoever ends an epoch names it: of two that saw the same one the second has to look again. A stock that is there is
// not seeded.
func TestAnEpochEndsOnce(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	defer client.Close()
	r := NewRedis(repo.NewRedis(client))
	last := uint64(0)
	for range 3 {
		for _, saw := range []uint64{last + 1, last} {
			want := service.ErrStockReset
			if saw == last {
				want = nil
			}
			if _, err := r.set(t.Context(), "set", "pen", 5, saw, service.Condition{}, ""); !errors.Is(err, want) {
				t.Errorf("epoch %d, seen as %d: %v, want %v", last, saw, err, want)
			}
		}
		former := last
		stock, err := r.Read(t.Context(), "pen")
		if last = stock.Epoch; err != nil || last <= former {
			t.Fatalf("epoch %d after %d, %v", last, former, err)
		}
		_, err = r.set(t.Context(), "set", "pen", 5, former, service.Condition{}, "")
		if !errors.Is(err, service.ErrStockReset) {
			t.Errorf("epoch %d, seen as %d: %v, want ErrStockReset", last, former, err)
		}
	}
}

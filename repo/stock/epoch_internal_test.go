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
	for _, step := range []struct {
		saw  uint64
		want error
	}{
		{1, service.ErrStockReset},
		{0, nil},
		{0, service.ErrStockReset},
		{2, service.ErrStockReset},
		{1, nil},
		{1, service.ErrStockReset},
	} {
		before, _ := r.Read(t.Context(), "pen")
		_, err := r.set(t.Context(), "set", "pen", 5, step.saw, service.Condition{}, "")
		if !errors.Is(err, step.want) {
			t.Errorf("epoch %d, seen as %d: %v, want %v", before.Epoch, step.saw, err, step.want)
		}
		after, _ := r.Read(t.Context(), "pen")
		if grown := after.Epoch - before.Epoch; (grown == 1) != (step.want == nil) {
			t.Errorf("epoch %d, seen as %d, became %d", before.Epoch, step.saw, after.Epoch)
		}
	}
}

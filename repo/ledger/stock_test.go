package ledger_test

import (
	"fmt"
	"slices"
	"testing"

	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
)

// A stock that the ledger makes is in Redis as one that was set: with the same keys, an empty list of orders of its
// epoch, and the set of the settled. Orders of a stock that somebody removed by hand are removed.
func TestTheLedgerMakesAStockAsSetDoes(t *testing.T) {
	t.Parallel()
	addr := repotest.MiniAddr(t)
	client := dialRedis(t, addr)
	d := deskOn(t, repo.NewRedis(client))
	by := func(sku service.SKU) (seen []string) {
		key := "stock:{" + string(sku) + "}"
		epoch := client.HGet(t.Context(), key, "epoch").Val()
		for _, field := range []string{"initial", "quantity", "sold"} {
			seen = append(seen, client.HGet(t.Context(), key, field).Val())
		}
		list, err := client.LRange(t.Context(), key+":orders", 0, -1).Result()
		seen = append(seen, fmt.Sprint(slices.Equal(list, []string{epoch}), err))
		settled, err := client.ZRangeWithScores(t.Context(), key+":settled", 0, -1).Result()
		return append(seen, fmt.Sprint(settled, err))
	}
	set, made := newSKU("set"), newSKU("made")
	mustSet(t, d.shop(), set, 0)
	if err := client.RPush(t.Context(), "stock:{"+string(made)+"}:orders", "9", "of before").Err(); err != nil {
		t.Fatal(err)
	}
	stocked(t, d, made, 0)
	if a, b := by(set), by(made); !slices.Equal(a, b) {
		t.Errorf("set:  %v\nmade: %v", a, b)
	}
}

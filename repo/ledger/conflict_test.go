package ledger_test

import (
	"errors"
	"testing"

	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// A step of which another instance has changed what was read is decided anew on what is there now, whether it is about
// a stock, an order or a reservation. One that is refused is not.
func TestAStepIsDecidedAnewAfterAConflict(t *testing.T) {
	t.Parallel()
	addr := repotest.MiniAddr(t)
	d, other := deskOn(t, repo.NewRedis(dialRedis(t, addr))), deskOn(t, repo.NewRedis(dialRedis(t, addr)))
	sku := stocked(t, d, newSKU("conflict"), 10)
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann"}
	for _, conflicts := range []int{0, 1, 3} {
		before, err := d.Level(short(t), sku)
		if err != nil {
			t.Fatal(err)
		}
		decided, decide := 0, place(newID(), "ann", line(sku, 1))
		step(t, d, about, func(s orders.State) (orders.Changes, error) {
			if decided++; decided <= conflicts {
				step(t, other, about, adjust(sku, 1))
			}
			return decide(s)
		})
		if decided != conflicts+1 {
			t.Errorf("%d conflicts: decided %d times", conflicts, decided)
		}
		level(t, d, sku, before.Available+int64(conflicts)-1, 0, before.Sold+1)
	}
	decided, refusal := 0, errors.New("refused")
	_, _, err := d.Step(short(t), about, func(orders.State) (orders.Changes, error) {
		decided++
		step(t, other, about, adjust(sku, 1))
		return orders.Changes{}, refusal
	})
	if !errors.Is(err, refusal) || decided != 1 {
		t.Errorf("a refusal: %v, decided %d times", err, decided)
	}
	id := ordered(t, d, "ann", line(sku, 1))
	decided = 0
	_, _, err = d.Step(short(t), orders.About{Order: id}, func(s orders.State) (orders.Changes, error) {
		if decided++; decided == 1 {
			step(t, other, orders.About{Order: id}, giveBack)
		}
		return giveBack(s)
	})
	if !errors.Is(err, orders.ErrState) || decided != 2 {
		t.Errorf("an order that was canceled meanwhile: %v, decided %d times", err, decided)
	}
	// The same key, meanwhile, for another stock: nothing else of the two steps meets.
	elsewhere := stocked(t, d, newSKU("elsewhere"), 10)
	about.Key, decided = keyed("1"), 0
	decide := place(newID(), "ann", line(sku, 1))
	var want []byte
	reply, replayed, err := d.Step(short(t), about, func(s orders.State) (orders.Changes, error) {
		if decided++; decided == 1 {
			want = step(t, other, orders.About{SKUs: []service.SKU{elsewhere}, Customer: "ann", Key: about.Key},
				place(newID(), "ann", line(elsewhere, 1)))
		}
		return decide(s)
	})
	if err != nil || !replayed || string(reply) != string(want) || decided != 1 {
		t.Errorf("a key that was used meanwhile: %s, replayed %t, %v, decided %d times", reply, replayed, err, decided)
	}
}

package ledger_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// holdClauses are what the ledgers promise of the reservations of one customer.
var holdClauses = []ledgerClause{
	{"ledger-holding", "A step sees its holder's open reservations, over all SKUs, and nobody else's.", ledgerHolding},
	{"ledger-holding-many", "A limit over many SKUs holds for many at once, in several instances.", ledgerHoldingMany},
	{"ledger-holding-before", "Reservations that were made without a limit count.", ledgerHoldingBefore},
	{"ledger-holding-batch", "A step of a batch sees the reservations of those before it.", ledgerHoldingBatch},
}

// holdWithin is hold, if the customer then has at most that many open reservations, with that many units.
func holdWithin(open, units int64, id, customer string, lines ...orders.Line) rule {
	return func(s orders.State) (orders.Changes, error) {
		if s.Holding.Open >= open || s.Holding.Units+orders.Units(lines) > units {
			return orders.Changes{}, &orders.HoldError{Limit: s.Holding.Open, Remaining: s.Holding.Units}
		}
		return hold(id, customer, time.Hour, lines...)(s)
	}
}

// has wants a customer to have that many open reservations, with that many units. It asks by a step that is refused.
func has(t testing.TB, d desk, sku service.SKU, customer string, open, units int64) {
	t.Helper()
	about := orders.About{SKUs: []service.SKU{sku}, Customer: customer, Holder: customer}
	_, _, err := d.Step(short(t), about, holdWithin(0, 0, newID(), customer, line(sku, 1)))
	if got, ok := errors.AsType[*orders.HoldError](err); !ok || got.Limit != open || got.Remaining != units {
		t.Errorf("%s: %+v, %v; want %d open with %d units", customer, got, err, open, units)
	}
}

// several are n SKUs with that many units each.
func several(t testing.TB, d desk, sku service.SKU, n int, units int64) (skus []service.SKU) {
	t.Helper()
	for i := range n {
		skus = append(skus, stocked(t, d, service.SKU(fmt.Sprint(sku, "-", i)), units))
	}
	return skus
}

func ledgerHolding(t *testing.T, d desk, sku service.SKU) {
	ann, bob := newID(), newID()
	skus := several(t, d, sku, 3, 100)
	has(t, d, skus[0], ann, 0, 0)
	var ids []string
	for i := range int64(4) {
		ids = append(ids, held(t, d, ann, time.Minute, line(skus[0], 1+i), line(skus[1], 10)))
	}
	held(t, d, bob, time.Minute, line(skus[2], 7))
	ordered(t, d, ann, line(skus[0], 9))
	has(t, d, skus[2], ann, 4, 50) // of a SKU that she has not reserved
	has(t, d, skus[0], bob, 1, 7)
	step(t, d, orders.About{Reservation: ids[0]}, func(s orders.State) (orders.Changes, error) {
		r := *s.Reservation
		r.ExpiresAt = r.ExpiresAt.Add(time.Hour)
		r.ExtendedAt = &s.Now
		return orders.Changes{Reservation: &r, Reply: text(r)}, nil
	})
	r, err := d.Reservation(short(t), ids[0])
	if err != nil || r.ExtendedAt == nil || r.ExtendedAt.Before(r.CreatedAt) {
		t.Errorf("extended: %+v, %v", r, err)
	}
	has(t, d, skus[2], ann, 4, 50)
	step(t, d, orders.About{Reservation: ids[0]}, end(orders.Confirmed, newID()))
	has(t, d, skus[0], ann, 3, 39)
	step(t, d, orders.About{Reservation: ids[1]}, end(orders.Released, ""))
	has(t, d, skus[1], ann, 2, 27)
	step(t, d, orders.About{Reservation: ids[2]}, end(orders.Expired, ""))
	has(t, d, skus[2], ann, 1, 14)
	refuses(t, d, orders.About{Reservation: ids[2]}, orders.ErrState, end(orders.Released, ""))
	has(t, d, skus[0], ann, 1, 14)
}

// Several instances reserve for one customer, and every SKU is another row. As many succeed as there is room for, and
// as many as others have ended afterwards.
func ledgerHoldingMany(t *testing.T, d desk, sku service.SKU) {
	const open, units, atOnce = 7, 100, 40
	skus := several(t, d, sku, 10, 100)
	desks := []desk{d, deskOn(t, d.conn), merged(deskOn(t, d.conn))}
	customer := newID()
	burst := func(most int64) (ids []string) {
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range atOnce {
			all.Go(func() {
				id, of := newID(), skus[i%len(skus)]
				about := orders.About{SKUs: []service.SKU{of}, Customer: customer, Holder: customer}
				hold := holdWithin(most, units, id, customer, line(of, 3))
				_, _, err := desks[i%len(desks)].Step(short(t), about, hold)
				switch {
				case err == nil:
					mu.Lock()
					defer mu.Unlock()
					ids = append(ids, id)
				case !errors.Is(err, orders.ErrHold):
					t.Error(err)
				}
			})
		}
		all.Wait()
		return ids
	}
	ids := burst(open)
	if len(ids) != open {
		t.Errorf("%d reserved, want %d", len(ids), open)
	}
	has(t, d, skus[0], customer, open, 3*open)
	for i, id := range ids[:min(4, len(ids))] {
		state := []string{orders.Confirmed, orders.Released, orders.Expired, orders.Released}[i]
		step(t, d, orders.About{Reservation: id}, end(state, newID()))
	}
	if ids = burst(open); len(ids) != 4 {
		t.Errorf("%d reserved after 4 were ended, want 4", len(ids))
	}
	if ids = burst(units); len(ids) != (units-3*open)/3 { // the limit of units
		t.Errorf("%d more reserved, want %d", len(ids), (units-3*open)/3)
	}
	var reserved int64
	for _, of := range skus {
		reserved += balances(t, d, of).Reserved
	}
	if reserved > units {
		t.Errorf("%d units are reserved, want at most %d", reserved, units)
	}
}

func ledgerHoldingBefore(t *testing.T, d desk, sku service.SKU) {
	skus := several(t, d, sku, 2, 100)
	customer := newID()
	first := held(t, d, customer, time.Minute, line(skus[0], 2))
	held(t, d, customer, time.Minute, line(skus[1], 3))
	about := orders.About{SKUs: skus[:1], Customer: customer, Holder: customer}
	refuses(t, d, about, orders.ErrHold, holdWithin(2, 100, newID(), customer, line(skus[0], 1)))
	refuses(t, d, about, orders.ErrHold, holdWithin(9, 5, newID(), customer, line(skus[0], 1)))
	step(t, d, orders.About{Reservation: first}, end(orders.Released, ""))
	step(t, d, about, holdWithin(2, 4, newID(), customer, line(skus[0], 1)))
	has(t, d, skus[0], customer, 2, 4)
}

func ledgerHoldingBatch(t *testing.T, d desk, sku service.SKU) {
	skus := several(t, d, sku, 3, 100)
	customer, other := newID(), newID()
	first := held(t, d, customer, time.Minute, line(skus[0], 4))
	reserve := func(customer string, i int) orders.Request {
		about := orders.About{SKUs: skus[i : i+1], Customer: customer, Holder: customer}
		return orders.Request{
			About: about, Decide: holdWithin(3, 9, newID(), customer, line(skus[i], 2)),
		}
	}
	steps := []orders.Request{
		reserve(customer, 0), reserve(customer, 1), reserve(customer, 2), // the third is one too many
		{About: orders.About{Reservation: first, SKUs: skus[:1]}, Decide: end(orders.Confirmed, newID())},
		reserve(customer, 2), reserve(customer, 0), reserve(other, 0),
	}
	for i, out := range d.books.(orders.Batcher).Batch(short(t), steps) {
		if refused := errors.Is(out.Err, orders.ErrHold); refused != (i == 2 || i == 5) || !refused && out.Err != nil {
			t.Errorf("step %d: %v", i, out.Err)
		}
	}
	has(t, d, skus[0], customer, 3, 6)
	has(t, d, skus[1], other, 1, 2)
}

// What an instance of an older version leaves in the store does not keep a customer from reserving.
func TestHoldingBesideAnOlderInstance(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		client := dialRedis(t, repotest.MiniAddr(t))
		d := deskOn(t, repo.NewRedis(client))
		sku := stocked(t, d, newSKU("older"), 10)
		id := held(t, d, "ann", time.Minute, line(sku, 2))
		gone := held(t, d, "ann", time.Minute, line(sku, 1))
		step(t, d, orders.About{Reservation: gone}, end(orders.Released, ""))
		entries := func() map[string]string { return client.HGetAll(t.Context(), "ledger:held:ann").Val() }
		if got := entries(); len(got) != 1 || got[id] != "2" {
			t.Errorf("entries %v, want only that of the open one", got)
		}
		// The older instance has ended a reservation without removing its entry.
		if err := client.HSet(t.Context(), "ledger:held:ann", gone, 5).Err(); err != nil {
			t.Fatal(err)
		}
		has(t, d, sku, "ann", 1, 2)
		step(t, d, orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Holder: "ann"},
			holdWithin(2, 3, newID(), "ann", line(sku, 1)))
	})
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		db := openMySQL(t, database(t))
		d := deskOn(t, repo.NewMySQL(db))
		sku := stocked(t, d, newSKU("older"), 10)
		held(t, d, "ann", time.Minute, line(sku, 2))
		id := held(t, d, "ann", time.Minute, line(sku, 3))
		// The older instance has made the second one, and does not write its units.
		if err := db.Exec("UPDATE reservations SET units = NULL WHERE id = ?", id).Error; err != nil {
			t.Fatal(err)
		}
		has(t, d, sku, "ann", 2, 2)
		step(t, d, orders.About{Reservation: id}, end(orders.Released, ""))
		has(t, d, sku, "ann", 1, 2)
	})
}

// A hoarder reserves all that the service lets go, for a day: first under one name, then under a thousand names. A
// normal customer can still buy, and then reserve what was bought and given back.
func TestAHoarderLeavesTheShare(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(testing.TB) desk{"redis": redisDesk, "mysql": mysqlDesk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			limits := orders.Limits{Open: 5, Units: 20, Share: 80}
			config := orders.Config{Store: d.books, Needs: noNeed{}, Limits: limits, Work: 10 * time.Second}
			shop := orders.New(config.Merged(orders.MergeOptions{}))
			skus := several(t, d, newSKU("hoarded"), 4, 100)
			refusals := map[string]int{}
			reserve := func(customer string, lines ...orders.Line) error {
				_, _, err := shop.Reserve(short(t), "", customer, lines, 24*time.Hour)
				if refused, ok := errors.AsType[*orders.HoldError](err); ok {
					refusals[refused.Of]++
				} else if err != nil {
					t.Error(err)
				}
				return err
			}
			reserved := func() (n int64) {
				for _, sku := range skus {
					n += balances(t, d, sku).Reserved
				}
				return n
			}
			one := newID()
			for i := range 100 {
				_ = reserve(one, line(skus[i%len(skus)], 3))
			}
			if got := reserved(); got != 15 || refusals[orders.OfOpen] != 95 {
				t.Errorf("under one name %d units are reserved, refusals %v; want 5 times 3", got, refusals)
			}
			var names atomic.Int64
			var all sync.WaitGroup
			many := map[string]int{}
			var mu sync.Mutex
			for range 8 {
				all.Go(func() {
					for n := names.Add(1); n <= 1000; n = names.Add(1) {
						sku := skus[n%int64(len(skus))]
						name := fmt.Sprint(one, "-", n)
						_, _, err := shop.Reserve(short(t), "", name, lines(line(sku, 1)), 24*time.Hour)
						mu.Lock()
						if refused, ok := errors.AsType[*orders.HoldError](err); ok {
							many[refused.Of]++
						} else if err != nil {
							t.Error(err)
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			if got := reserved(); got != 4*80 || many[orders.OfShare] != 1000-4*80+15 || len(many) != 1 {
				t.Errorf("under a thousand names %d units are reserved, refusals %v; want 80 of each 100", got, many)
			}
			normal := newID()
			bought, _, err := shop.Place(short(t), "", normal, lines(line(skus[0], 20)))
			if err != nil {
				t.Fatalf("a normal customer gets nothing: %v", err)
			}
			for _, sku := range skus[1:] {
				if _, _, err := shop.Place(short(t), "", normal, lines(line(sku, 20))); err != nil {
					t.Errorf("a normal customer does not get 20 of %s: %v", sku, err)
				}
			}
			if _, _, err := shop.CancelOrder(short(t), "", normal, bought.ID); err != nil {
				t.Error(err)
			}
			if err := reserve(normal, line(skus[0], 1)); !errors.Is(err, orders.ErrHold) {
				t.Errorf("81 of 100 may be reserved: %v", err)
			}
		})
	}
}

func lines(all ...orders.Line) []orders.Line { return all }

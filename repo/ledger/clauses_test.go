package ledger_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// A ledgerClause is one promise of a ledger.
type ledgerClause struct {
	name, text string
	check      func(t *testing.T, d desk, sku service.SKU)
}

// ledgerClauses are what the ledgers of both stores promise. Every check gets a SKU of its own.
var ledgerClauses = []ledgerClause{
	{"ledger-place", "An order, its movement, the level and the reply are written and read as given.", ledgerPlace},
	{"ledger-kinds", "Each kind of movement changes its terms, and the law holds after each.", ledgerKinds},
	{"ledger-cart", "A cart is sold as a whole or not at all.", ledgerCart},
	{"ledger-many", "30 at once in every way keep the law, and the numbers have no gap.", ledgerMany},
	{"ledger-key", "The same key and request replays the reply; another request is refused.", ledgerKey},
	{"ledger-key-many", "Of 30 at once with one key one writes, and 29 are replayed.", ledgerKeyMany},
	{"ledger-fence", "A step with a smaller fence than one before is refused.", ledgerFence},
	{"ledger-limit-many", "A limit holds for 30 at once.", ledgerLimitMany},
}

func ledgerPlace(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 10)
	id := newID()
	reply := step(t, d, orders.About{SKUs: []service.SKU{sku}, Customer: "ann"}, place(id, "ann", line(sku, 3)))
	o, err := d.Order(short(t), id)
	if err != nil || string(text(o)) != string(reply) {
		t.Errorf("order %s, %v\nreply %s", text(o), err, reply)
	}
	if o.State != orders.Placed || o.Customer != "ann" || !slices.Equal(o.Lines, []orders.Line{line(sku, 3)}) ||
		time.Since(o.CreatedAt).Abs() > time.Minute || o.CreatedAt.Location() != time.UTC {
		t.Errorf("order %+v", o)
	}
	level(t, d, sku, 7, 0, 3)
	last := journal(t, d, sku)[1]
	want := orders.Movement{
		SKU: sku, Number: 2, Kind: orders.Sell, Available: -3, Sold: 3, Ref: id, Customer: "ann", At: o.CreatedAt,
	}
	if last != want {
		t.Errorf("movement %+v\nwant     %+v", last, want)
	}
	if _, err := d.Order(short(t), newID()); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("another order: %v", err)
	}
}

func ledgerKinds(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 10)
	one := held(t, d, "ann", time.Minute, line(sku, 4))
	level(t, d, sku, 6, 4, 0)
	bought := newID()
	step(t, d, orders.About{Reservation: one}, end(orders.Confirmed, bought))
	level(t, d, sku, 6, 0, 4)
	step(t, d, orders.About{Order: bought}, giveBack)
	level(t, d, sku, 10, 0, 0)
	two := held(t, d, "ann", time.Minute, line(sku, 5))
	step(t, d, orders.About{Reservation: two}, end(orders.Released, ""))
	step(t, d, orders.About{Reservation: held(t, d, "ann", time.Minute, line(sku, 6))}, end(orders.Expired, ""))
	level(t, d, sku, 10, 0, 0)
	step(t, d, orders.About{SKUs: []service.SKU{sku}}, adjust(sku, -7))
	if l := level(t, d, sku, 3, 0, 0); l.Received != 3 || l.Number != 9 {
		t.Errorf("%+v", l)
	}
	r, err := d.Reservation(short(t), one)
	if err != nil || r.State != orders.Confirmed || r.Order != bought || r.EndedAt == nil {
		t.Errorf("%+v, %v", r, err)
	}
	o, err := d.Order(short(t), bought)
	if err != nil || o.State != orders.Canceled || o.CanceledAt == nil || o.Reservation != one {
		t.Errorf("%+v, %v", o, err)
	}
	refuses(t, d, orders.About{Order: bought}, orders.ErrState, giveBack)
	refuses(t, d, orders.About{Reservation: two}, orders.ErrState, end(orders.Confirmed, newID()))
	refuses(t, d, orders.About{Reservation: newID()}, orders.ErrNotFound, end(orders.Confirmed, newID()))
	refuses(t, d, orders.About{Order: newID()}, orders.ErrNotFound, giveBack)
}

func ledgerCart(t *testing.T, d desk, sku service.SKU) {
	a, b, c := stocked(t, d, sku+"-a", 5), stocked(t, d, sku+"-b", 1), stocked(t, d, sku+"-c", 0)
	about := orders.About{SKUs: []service.SKU{a, b, c}, Customer: "ann"}
	id := newID()
	_, _, err := d.Step(short(t), about, place(id, "ann", line(a, 2), line(b, 2), line(c, 1)))
	var lacking *orders.ShortError
	if !errors.As(err, &lacking) || len(lacking.Lines) != 2 ||
		lacking.Lines[1] != (orders.Shortage{SKU: c, Requested: 1}) {
		t.Errorf("%v, want two short lines", err)
	}
	level(t, d, a, 5, 0, 0)
	level(t, d, b, 1, 0, 0)
	about.SKUs = []service.SKU{a, b}
	step(t, d, about, place(id, "ann", line(a, 2), line(b, 1)))
	level(t, d, a, 3, 0, 2)
	level(t, d, b, 0, 0, 1)
	step(t, d, orders.About{Order: id}, giveBack)
	level(t, d, a, 5, 0, 0)
	level(t, d, b, 1, 0, 0)
}

func ledgerMany(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 50)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			customer := fmt.Sprint("c", i%5)
			about := orders.About{SKUs: []service.SKU{sku}, Customer: customer}
			do := func(about orders.About, decide rule) bool {
				_, _, err := d.Step(short(t), about, decide)
				if err != nil && !errors.Is(err, orders.ErrShort) && !errors.Is(err, orders.ErrBelowZero) {
					t.Error(err)
				}
				return err == nil
			}
			for j := range 2 {
				id, bought := newID(), newID()
				switch (i + j) % 5 {
				case 0:
					do(orders.About{SKUs: []service.SKU{sku}}, adjust(sku, int64(7-i)))
				case 1:
					if do(about, place(bought, customer, line(sku, 3))) && j == 0 {
						do(orders.About{Order: bought}, giveBack)
					}
				case 2:
					if do(about, hold(id, customer, time.Minute, line(sku, 2))) {
						do(orders.About{Reservation: id}, end(orders.Confirmed, bought))
					}
				case 3:
					if do(about, hold(id, customer, time.Minute, line(sku, 2))) {
						do(orders.About{Reservation: id}, end(orders.Released, ""))
					}
				case 4:
					do(about, hold(id, customer, time.Minute, line(sku, 1)))
				}
				if _, err := d.Level(short(t), sku); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if l := balances(t, d, sku); l.Number < 30 || l.Sold == 0 {
		t.Errorf("%+v proves nothing", l)
	}
}

func ledgerKey(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 10)
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
	reply := step(t, d, about, place(newID(), "ann", line(sku, 1)))
	again := place(newID(), "ann", line(sku, 1))
	refused := func(orders.State) (orders.Changes, error) { return orders.Changes{}, orders.ErrNotFound }
	for _, decide := range []func(orders.State) (orders.Changes, error){again, refused} {
		got, replayed, err := d.Step(short(t), about, decide)
		if err != nil || !replayed || string(got) != string(reply) {
			t.Errorf("%s, %v, %v; want %s", got, replayed, err, reply)
		}
	}
	about.Key.Fingerprint = "2"
	refuses(t, d, about, orders.ErrKeyReused, again)
	refuses(t, d, about, orders.ErrKeyReused, refused)
	level(t, d, sku, 9, 0, 1)
}

func ledgerKeyMany(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
	var written, replayed atomic.Int64
	var replies sync.Map
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			reply, again, err := d.Step(short(t), about, place(newID(), "ann", line(sku, 1)))
			switch {
			case err != nil:
				t.Error(err)
			case again:
				replayed.Add(1)
			default:
				written.Add(1)
			}
			replies.Store(string(reply), true)
		})
	}
	all.Wait()
	different := 0
	replies.Range(func(any, any) bool { different++; return true })
	if written.Load() != 1 || replayed.Load() != 29 || different != 1 {
		t.Errorf("%d written, %d replayed, %d replies", written.Load(), replayed.Load(), different)
	}
	level(t, d, sku, 99, 0, 1)
}

func ledgerFence(t *testing.T, d desk, sku service.SKU) {
	a, b := stocked(t, d, sku+"-a", 10), stocked(t, d, sku+"-b", 10)
	about := orders.About{SKUs: []service.SKU{a, b}}
	for _, row := range []struct {
		a, b  uint64
		stale bool
	}{
		{5, 0, false},
		{4, 9, true},
		{5, 9, false},
		{6, 8, true},
		{0, 0, false},
		{1<<63 + 1, 9, false},
		{1 << 63, 9, true},
		{1<<63 + 1, 9, false},
	} {
		about.Fences = map[service.SKU]uint64{a: row.a, b: row.b}
		decide := func(s orders.State) (orders.Changes, error) {
			lines := []orders.Line{line(a, 1), line(b, 1)}
			return orders.Changes{Movements: moves(s, orders.Adjust, lines, "", "")}, nil
		}
		if row.stale {
			refuses(t, d, about, service.ErrStaleFence, decide)
		} else {
			step(t, d, about, decide)
		}
	}
	level(t, d, a, 15, 0, 0)
}

func ledgerLimitMany(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	if err := d.SetPolicy(short(t), sku, 2); err != nil {
		t.Fatal(err)
	}
	var sold atomic.Int64
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann"}
			_, _, err := d.Step(short(t), about, place(newID(), "ann", line(sku, 1)))
			if err == nil {
				sold.Add(1)
			} else if !errors.Is(err, orders.ErrLimit) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if sold.Load() != 2 {
		t.Errorf("%d sold, want 2", sold.Load())
	}
	level(t, d, sku, 98, 0, 2)
}

// due returns the ids that are due, of those given: other tests use the same server.
func due(t testing.TB, d desk, of ...string) (mine []string) {
	t.Helper()
	all, err := d.Due(short(t), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if slices.Contains(of, r.ID) {
			mine = append(mine, r.ID)
		}
	}
	return mine
}

package repo_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock"
	orders "example.com/stock/order"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// ledgerClauses are what the ledgers of both stores promise. Every check gets a SKU of its own.
var ledgerClauses = []struct {
	name, text string
	check      func(t *testing.T, d desk, sku service.SKU)
}{
	{"ledger-place", "An order, its movement, the level and the reply are written and read as given.", ledgerPlace},
	{"ledger-kinds", "Each kind of movement changes its terms, and the law holds after each.", ledgerKinds},
	{"ledger-refusal", "What decide refuses is not written, and decide's error comes back.", ledgerRefusal},
	{"ledger-books", "A decision that breaks the books is not written.", ledgerBooks},
	{"ledger-cart", "A cart is sold as a whole or not at all.", ledgerCart},
	{"ledger-carts", "Carts with the same SKUs in other orders lose no unit, and do not deadlock.", ledgerCarts},
	{"ledger-many", "30 at once in every way keep the law, and the numbers have no gap.", ledgerMany},
	{"ledger-key", "The same key and request replays the reply; another request is refused.", ledgerKey},
	{"ledger-key-refused", "A refusal keeps no key; a reply alone does.", ledgerKeyRefused},
	{"ledger-key-many", "Of 30 at once with one key one writes, and 29 are replayed.", ledgerKeyMany},
	{"ledger-key-skus", "That holds if each of them is about another SKU.", ledgerKeySKUs},
	{"ledger-unknown", "Nothing but Create makes a SKU, and only if something is moved.", ledgerUnknown},
	{"ledger-create-many", "30 at once that make the same SKUs make each once.", ledgerCreateMany},
	{"ledger-adopt", "The first step that moves a SKU records what was there as movement 1.", ledgerAdopt},
	{"ledger-guard", "What a ledger has changed no strategy may sell, and nobody set.", ledgerGuard},
	{"ledger-guarded", "What a strategy has sold no ledger may touch.", ledgerGuarded},
	{"ledger-fence", "A step with a smaller fence than one before is refused.", ledgerFence},
	{"ledger-customer", "What a customer has is counted, reserved and sold, and given back.", ledgerCustomer},
	{"ledger-limit-many", "A limit holds for 30 at once.", ledgerLimitMany},
	{"ledger-states", "A reservation ends once, however many end it at once.", ledgerStates},
	{"ledger-due", "Reservations are due when their time is over, the longest over first.", ledgerDue},
	{"ledger-sweep", "Three sweepers at once give each unit back once.", ledgerSweep},
	{"ledger-records", "Orders of a customer come newest first, page by page, each once.", ledgerRecords},
	{"ledger-outbox", "What was moved and not delivered is behind; an older fence is refused.", ledgerOutbox},
	{"ledger-text", "Text and times come back as they went in.", ledgerText},
	{"ledger-cancelled", "With a ctx that is over nothing is written, and the error has its cause.", ledgerCancelled},
}

func TestLedger(t *testing.T) {
	t.Parallel()
	for _, store := range []struct {
		name string
		open func(t testing.TB) desk
	}{{"redis", redisDesk}, {"miniredis", miniDesk}, {"mysql", mysqlDesk}} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			d := store.open(t)
			for _, clause := range ledgerClauses {
				t.Run(clause.name, func(t *testing.T) {
					t.Parallel()
					clause.check(t, d, newSKU(clause.name))
					if t.Failed() {
						t.Log("broken:", clause.text)
					}
				})
			}
		})
	}
}

func mysqlDesk(t testing.TB) desk {
	m := repo.NewMySQL(openMySQL(t, sharedMySQL(t)))
	return desk{books: m.Ledger(), shop: m}
}

func redisDesk(t testing.TB) desk {
	return deskOf(t, repo.NewRedis(dialRedis(t, servers.Redis(t).Addr)))
}

func miniDesk(t testing.TB) desk { return deskOf(t, miniRedis(t).(*repo.Redis)) }

func deskOf(t testing.TB, r *repo.Redis) desk {
	t.Helper()
	ledger, err := r.Ledger()
	if err != nil {
		t.Fatal(err)
	}
	return desk{books: ledger, shop: r}
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

func ledgerRefusal(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 2)
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
	id := newID()
	refuses(t, d, about, orders.ErrShort, place(id, "ann", line(sku, 3)))
	own := errors.New("own")
	refuses(t, d, about, own, func(orders.State) (orders.Changes, error) { return orders.Changes{}, own })
	if _, err := d.Order(short(t), id); !errors.Is(err, orders.ErrNotFound) {
		t.Errorf("the refused order: %v", err)
	}
	calls := 0
	reply, replayed, err := d.Step(short(t), about, func(orders.State) (orders.Changes, error) {
		calls++
		return orders.Changes{}, nil
	})
	if reply != nil || replayed || err != nil || calls != 1 {
		t.Errorf("a step that changes nothing: %q, %v, %v, %d calls", reply, replayed, err, calls)
	}
	level(t, d, sku, 2, 0, 0)
}

func ledgerBooks(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 2)
	about := orders.About{SKUs: []service.SKU{sku}}
	for name, wrong := range map[string]orders.Movement{
		"gap":        {SKU: sku, Number: 3, Kind: orders.Adjust, Received: 1, Available: 1},
		"again":      {SKU: sku, Number: 1, Kind: orders.Adjust, Received: 1, Available: 1},
		"unbalanced": {SKU: sku, Number: 2, Kind: orders.Adjust, Available: 1},
		"below zero": {SKU: sku, Number: 2, Kind: orders.Sell, Available: -3, Sold: 3},
		"not about":  {SKU: sku + "-2", Number: 1, Kind: orders.Adjust, Received: 1, Available: 1},
	} {
		_, _, err := d.Step(short(t), about, func(orders.State) (orders.Changes, error) {
			return orders.Changes{Movements: []orders.Movement{wrong}}, nil
		})
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		level(t, d, sku, 2, 0, 0)
	}
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

func ledgerCarts(t *testing.T, d desk, sku service.SKU) {
	var skus []service.SKU
	for _, name := range []string{"-a", "-b", "-c", "-d"} {
		skus = append(skus, stocked(t, d, sku+service.SKU(name), 1000))
	}
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			for j := range 3 {
				lines := []orders.Line{line(skus[i%4], 1), line(skus[(i+j+1)%4], 2)}
				if i%4 == (i+j+1)%4 {
					lines = lines[:1]
				}
				slices.SortFunc(lines, func(a, b orders.Line) int { return len(a.SKU) - len(b.SKU) })
				about := orders.About{SKUs: skusOf(lines), Customer: fmt.Sprint("c", i)}
				slices.Sort(about.SKUs)
				id := newID()
				if _, _, err := d.Step(short(t), about, place(id, about.Customer, lines...)); err != nil {
					t.Error(err)
				} else if _, _, err := d.Step(short(t), orders.About{Order: id}, giveBack); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for _, sku := range skus {
		level(t, d, sku, 1000, 0, 0)
	}
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
	if l := balances(t, d, sku); l.Number < 30 {
		t.Errorf("%+v proves nothing", l)
	}
	if s := mustRead(t, d.shop, sku); s.Guard != orders.Guard || s.Sold == 0 {
		t.Errorf("the strategies see %+v", s)
	}
}

func ledgerKey(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 10)
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
	reply := step(t, d, about, place(newID(), "ann", line(sku, 1)))
	never := func(orders.State) (orders.Changes, error) { panic("decide is called for a replay") }
	for range 2 {
		got, replayed, err := d.Step(short(t), about, never)
		if err != nil || !replayed || string(got) != string(reply) {
			t.Errorf("%s, %v, %v; want %s", got, replayed, err, reply)
		}
	}
	about.Key.Fingerprint = "2"
	refuses(t, d, about, orders.ErrKeyReused, never)
	level(t, d, sku, 9, 0, 1)
}

func ledgerKeyRefused(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 1)
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann", Key: keyed("1")}
	refuses(t, d, about, orders.ErrShort, place(newID(), "ann", line(sku, 2)))
	step(t, d, orders.About{SKUs: []service.SKU{sku}}, adjust(sku, 1))
	step(t, d, about, place(newID(), "ann", line(sku, 2)))
	level(t, d, sku, 0, 0, 2)

	about.Key = keyed("2")
	step(t, d, about, func(orders.State) (orders.Changes, error) { return orders.Changes{Reply: []byte("said")}, nil })
	reply, replayed, err := d.Step(short(t), about, place(newID(), "ann", line(sku, 2)))
	if string(reply) != "said" || !replayed || err != nil {
		t.Errorf("%q, %v, %v", reply, replayed, err)
	}
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

func ledgerKeySKUs(t *testing.T, d desk, sku service.SKU) {
	var skus []service.SKU
	for i := range 8 {
		skus = append(skus, stocked(t, d, sku+service.SKU(fmt.Sprint("-", i)), 10))
	}
	for round := range 5 {
		key := keyed("1")
		var written atomic.Int64
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				at := skus[i%len(skus)]
				about := orders.About{SKUs: []service.SKU{at}, Key: key}
				_, again, err := d.Step(short(t), about, place(newID(), "", line(at, 1)))
				if err != nil {
					t.Error(err)
				} else if !again {
					written.Add(1)
				}
			})
		}
		all.Wait()
		if written.Load() != 1 {
			t.Errorf("round %d: %d written", round, written.Load())
		}
	}
	var sold int64
	for _, at := range skus {
		sold += balances(t, d, at).Sold
	}
	if sold != 5 {
		t.Errorf("%d sold, want 5", sold)
	}
}

func ledgerUnknown(t *testing.T, d desk, sku service.SKU) {
	about := orders.About{SKUs: []service.SKU{sku}}
	refuses(t, d, about, service.ErrUnknownSKU, adjust(sku, 1))
	about.Create = true
	refuses(t, d, about, orders.ErrBelowZero, adjust(sku, -1))
	step(t, d, about, func(orders.State) (orders.Changes, error) { return orders.Changes{}, nil })
	_, read := d.shop.Read(short(t), sku)
	_, level := d.Level(short(t), sku)
	_, moved := d.Movements(short(t), sku, 0, 1)
	for what, err := range map[string]error{
		"Read": read, "Level": level, "Movements": moved, "SetPolicy": d.SetPolicy(short(t), sku, 1),
	} {
		if !errors.Is(err, service.ErrUnknownSKU) {
			t.Errorf("%s: %v, want ErrUnknownSKU", what, err)
		}
	}
	step(t, d, about, func(s orders.State) (orders.Changes, error) {
		if s.Stock[sku] != (orders.Level{}) {
			t.Errorf("a new SKU is %+v", s.Stock[sku])
		}
		return adjust(sku, 5)(s)
	})
	if got := journal(t, d, sku); len(got) != 1 || got[0].Kind != orders.Adjust {
		t.Errorf("movements %+v", got)
	}
}

func ledgerCreateMany(t *testing.T, d desk, sku service.SKU) {
	about := orders.About{SKUs: []service.SKU{sku + "-a", sku + "-b", sku + "-c"}, Create: true}
	var all sync.WaitGroup
	for range 30 {
		all.Go(func() {
			_, _, err := d.Step(short(t), about, func(s orders.State) (orders.Changes, error) {
				var lines []orders.Line
				for _, sku := range about.SKUs {
					lines = append(lines, line(sku, 2))
				}
				return orders.Changes{Movements: moves(s, orders.Adjust, lines, "", "")}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, sku := range about.SKUs {
		level(t, d, sku, 60, 0, 0)
	}
}

func ledgerAdopt(t *testing.T, d desk, sku service.SKU) {
	mustSet(t, d.shop, sku, 5)
	mustSet(t, d.shop, sku, 9)
	about := orders.About{SKUs: []service.SKU{sku}}
	if l, err := d.Level(short(t), sku); err != nil || l != (orders.Level{Received: 9, Available: 9}) {
		t.Errorf("before: %+v, %v", l, err)
	}
	refuses(t, d, about, orders.ErrShort, place(newID(), "", line(sku, 10)))
	want(t, d.shop, service.Stock{SKU: sku, Quantity: 9, Initial: 9, Version: 2, Epoch: 2})
	if err := d.SetPolicy(short(t), sku, 4); err != nil {
		t.Error(err)
	}
	step(t, d, about, func(s orders.State) (orders.Changes, error) {
		if s.Stock[sku] != (orders.Level{Received: 9, Available: 9, Number: 1, PerCustomer: 4}) {
			t.Errorf("decide sees %+v", s.Stock[sku])
		}
		return place(newID(), "ann", line(sku, 2))(s)
	})
	level(t, d, sku, 7, 0, 2)
	moved := journal(t, d, sku)
	if len(moved) != 2 || moved[0] != (orders.Movement{
		SKU: sku, Number: 1, Kind: orders.Receive, Received: 9, Available: 9, At: moved[1].At,
	}) {
		t.Errorf("movements %+v", moved)
	}
	empty := sku + "-empty"
	mustSet(t, d.shop, empty, 0)
	stocked(t, d, empty, 3)
	if l := level(t, d, empty, 3, 0, 0); l.Number != 1 {
		t.Errorf("nothing was there, and yet it was recorded: %+v", l)
	}
}

func ledgerGuard(t *testing.T, d desk, sku service.SKU) {
	mustSet(t, d.shop, sku, 10)
	held(t, d, "ann", time.Minute, line(sku, 4))
	stock := mustRead(t, d.shop, sku)
	if stock.Guard != orders.Guard || stock.Quantity != 6 {
		t.Errorf("the strategies see %+v", stock)
	}
	tag := stock.Tag()
	o := numbered(stock)
	for name, write := range map[string]func() error{
		"Write":   func() error { return d.shop.Write(short(t), o) },
		"Swap":    func() error { return d.shop.Swap(short(t), o) },
		"Deduct":  func() error { _, err := d.shop.Deduct(short(t), o); return err },
		"Set":     func() error { _, err := d.shop.Set(short(t), sku, 1); return err },
		"SetSame": func() error { _, err := d.shop.Set(short(t), sku, 6); return err },
		"SetIf": func() error {
			_, err := d.shop.SetIf(short(t), sku, 1, service.Condition{Match: []string{tag}})
			return err
		},
		"Batch": func() error {
			done, err := d.shop.Batch(short(t), 0, []service.Order{o})
			return errors.Join(err, done[0].Err)
		},
		"Refill": func() error {
			return d.shop.Refill(short(t), service.Refill{
				SKU: sku, Epoch: stock.Epoch, Strategy: "none", Into: service.Segment{Number: 1}, Reserve: 1,
			})
		},
		"Raise": func() error {
			raiser := d.shop.(interface {
				Raise(context.Context, service.SKU, int, string, uint64) error
			})
			return raiser.Raise(short(t), sku, 0, "none", 9)
		},
	} {
		var guarded *service.GuardError
		if err := write(); !errors.As(err, &guarded) || guarded.Guard != orders.Guard {
			t.Errorf("%s: %v, want a GuardError with %q", name, err, orders.Guard)
		}
		if got := mustRead(t, d.shop, sku); got != stock {
			t.Errorf("%s changed %+v to %+v", name, stock, got)
		}
	}
	if err := d.shop.Seed(short(t), sku, 99); err != nil {
		t.Error(err)
	}
	level(t, d, sku, 6, 4, 0)
}

func ledgerGuarded(t *testing.T, d desk, sku service.SKU) {
	mustSet(t, d.shop, sku, 10)
	if _, err := d.shop.Deduct(short(t), numbered(service.Stock{SKU: sku})); err != nil {
		t.Fatal(err)
	}
	stock := mustRead(t, d.shop, sku)
	refuses(t, d, orders.About{SKUs: []service.SKU{sku}}, service.ErrGuarded, adjust(sku, 1))
	if _, err := d.Level(short(t), sku); !errors.Is(err, service.ErrGuarded) {
		t.Errorf("level: %v", err)
	}
	if err := d.SetPolicy(short(t), sku, 1); !errors.Is(err, service.ErrGuarded) {
		t.Errorf("policy: %v", err)
	}
	want(t, d.shop, stock)
	mustSet(t, d.shop, sku, 10) // ends the strategy's guard
	ordered(t, d, "ann", line(sku, 1))
	level(t, d, sku, 9, 0, 1)
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
	level(t, d, a, 14, 0, 0)
	if got := mustRead(t, d.shop, a).Fence; got != 1<<63+1 {
		t.Errorf("fence %d", got)
	}
}

func ledgerCustomer(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	taken := func(customer string, want int64) {
		t.Helper()
		about := orders.About{SKUs: []service.SKU{sku}, Customer: customer}
		_, _, err := d.Step(short(t), about, func(s orders.State) (orders.Changes, error) {
			if got := s.Stock[sku].Taken; got != want {
				t.Errorf("%s has %d, want %d", customer, got, want)
			}
			return orders.Changes{}, nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	taken("ann", 0)
	bought := ordered(t, d, "ann", line(sku, 3))
	one := held(t, d, "ann", time.Minute, line(sku, 4))
	two := held(t, d, "ann", time.Minute, line(sku, 5))
	ordered(t, d, "bob", line(sku, 6))
	taken("ann", 12)
	taken("bob", 6)
	taken("", 0)
	step(t, d, orders.About{Reservation: one}, end(orders.Confirmed, newID()))
	taken("ann", 12)
	step(t, d, orders.About{Reservation: two}, end(orders.Expired, ""))
	taken("ann", 7)
	step(t, d, orders.About{Order: bought}, giveBack)
	taken("ann", 4)
	if err := d.SetPolicy(short(t), sku, 5); err != nil {
		t.Fatal(err)
	}
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "ann"}
	refuses(t, d, about, orders.ErrLimit, place(newID(), "ann", line(sku, 2)))
	step(t, d, about, place(newID(), "ann", line(sku, 1)))
	if l := balances(t, d, sku); l.PerCustomer != 5 || l.Taken != 0 {
		t.Errorf("%+v", l)
	}
	for _, wrong := range []int64{-1, service.MaxStock + 1} {
		if err := d.SetPolicy(short(t), sku, wrong); invalid(err) != errInvalid {
			t.Errorf("policy %d: %v", wrong, err)
		}
	}
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

func ledgerStates(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	for range 5 {
		id := held(t, d, "ann", time.Minute, line(sku, 4))
		var ended atomic.Int64
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				state := []string{orders.Confirmed, orders.Released, orders.Expired}[i%3]
				_, _, err := d.Step(short(t), orders.About{Reservation: id}, end(state, newID()))
				if err == nil {
					ended.Add(1)
				} else if !errors.Is(err, orders.ErrState) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if ended.Load() != 1 {
			t.Errorf("ended %d times", ended.Load())
		}
		if l := balances(t, d, sku); l.Reserved != 0 {
			t.Errorf("%+v", l)
		}
	}
}

// due returns the ids that are due, of those given: other tests use the same server.
func due(t testing.TB, d desk, of ...string) (mine []string) {
	t.Helper()
	ids, err := d.Due(short(t), 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if slices.Contains(of, id) {
			mine = append(mine, id)
		}
	}
	return mine
}

func ledgerDue(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	later := held(t, d, "ann", time.Minute, line(sku, 1))
	second := held(t, d, "ann", -time.Minute, line(sku, 1))
	first := held(t, d, "ann", -time.Hour, line(sku, 1))
	all := []string{first, second, later}
	if got := due(t, d, all...); !slices.Equal(got, all[:2]) {
		t.Errorf("due %v, want %v", got, all[:2])
	}
	if ids, err := d.Due(short(t), 1); len(ids) != 1 || err != nil {
		t.Errorf("one of them: %v, %v", ids, err)
	}
	extend := func(by time.Duration) rule {
		return func(s orders.State) (orders.Changes, error) {
			r := *s.Reservation
			r.ExpiresAt = s.Now.Add(by)
			return orders.Changes{Reservation: &r}, nil
		}
	}
	step(t, d, orders.About{Reservation: second}, extend(time.Minute))
	step(t, d, orders.About{Reservation: later}, extend(-time.Second))
	if got := due(t, d, all...); !slices.Equal(got, []string{first, later}) {
		t.Errorf("after they were extended: %v", got)
	}
	step(t, d, orders.About{Reservation: first}, end(orders.Expired, ""))
	step(t, d, orders.About{Reservation: later}, end(orders.Confirmed, newID()))
	if got := due(t, d, all...); len(got) != 0 {
		t.Errorf("after they ended: %v", got)
	}
	level(t, d, sku, 98, 1, 1)
}

func ledgerSweep(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	var mine []string
	for range 20 {
		mine = append(mine, held(t, d, "ann", -time.Second, line(sku, 3)))
	}
	var swept atomic.Int64
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for _, id := range due(t, d, mine...) {
				_, _, err := d.Step(short(t), orders.About{Reservation: id}, end(orders.Expired, ""))
				if err == nil {
					swept.Add(1)
				} else if !errors.Is(err, orders.ErrState) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if swept.Load() != 20 {
		t.Errorf("swept %d, want 20", swept.Load())
	}
	level(t, d, sku, 100, 0, 0)
}

func ledgerRecords(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	customer := string(sku) // that no other test has
	var ids []string
	for range 7 {
		ids = append(ids, ordered(t, d, customer, line(sku, 1)))
	}
	slices.Reverse(ids)
	for limit := 1; limit <= 8; limit++ {
		var got []string
		cursor := ""
		for {
			page, next, err := d.Orders(short(t), customer, cursor, limit)
			if err != nil || len(page) > limit {
				t.Fatalf("%d orders, %v", len(page), err)
			}
			for _, o := range page {
				got = append(got, o.ID)
			}
			if cursor = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, ids) {
			t.Errorf("limit %d: %v\nwant %v", limit, got, ids)
		}
	}
	if page, next, err := d.Orders(short(t), customer+"x", "", 5); len(page) != 0 || next != "" || err != nil {
		t.Errorf("of nobody: %v, %q, %v", page, next, err)
	}
	for _, wrong := range []string{"x", "1", ".", "1.", ".a", "-1.a", "99999999999999999999.a", "' OR 1"} {
		if _, _, err := d.Orders(short(t), customer, wrong, 5); invalid(err) != errInvalid {
			t.Errorf("cursor %q: %v", wrong, err)
		}
	}
	if _, _, err := d.Orders(short(t), customer, "", 0); invalid(err) != errInvalid {
		t.Errorf("limit 0: %v", err)
	}
}

// behind returns how far the SKUs with that prefix are, of those that are behind.
func behind(t testing.TB, d desk, prefix service.SKU, limit int) (mine []orders.Delivered) {
	t.Helper()
	all, err := d.Behind(short(t), prefix, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if len(one.SKU) > len(prefix) && one.SKU[:len(prefix)] == prefix {
			mine = append(mine, one)
		}
	}
	return mine
}

func ledgerOutbox(t *testing.T, d desk, sku service.SKU) {
	a, b := stocked(t, d, sku+"-a", 10), stocked(t, d, sku+"-b", 10)
	mustSet(t, d.shop, sku+"-c", 10) // nothing moved
	wantBehind := func(want ...orders.Delivered) {
		t.Helper()
		if got := behind(t, d, sku, 100); !slices.Equal(got, want) {
			t.Errorf("behind %+v, want %+v", got, want)
		}
	}
	delivered := func(sku service.SKU, number, fence uint64, want error) {
		t.Helper()
		err := d.Delivered(short(t), orders.Delivered{SKU: sku, Number: number}, fence)
		if !errors.Is(err, want) {
			t.Errorf("delivered %d with fence %d: %v, want %v", number, fence, err, want)
		}
	}
	wantBehind(orders.Delivered{SKU: a}, orders.Delivered{SKU: b})
	if got := behind(t, d, sku, 1); len(got) != 1 || got[0].SKU != a {
		t.Errorf("the first: %v", got)
	}
	if got, err := d.Behind(short(t), a, 1); err != nil || len(got) != 1 || got[0].SKU != b {
		t.Errorf("after the first: %v, %v", got, err)
	}
	delivered(a, 1, 5, nil)
	delivered(a, 1, 5, nil)
	wantBehind(orders.Delivered{SKU: b})
	for range 3 {
		ordered(t, d, "ann", line(a, 1))
	}
	wantBehind(orders.Delivered{SKU: a, Number: 1}, orders.Delivered{SKU: b})
	delivered(a, 3, 6, nil)
	wantBehind(orders.Delivered{SKU: a, Number: 3}, orders.Delivered{SKU: b})
	delivered(a, 4, 5, service.ErrStaleFence)
	delivered(a, 3, 5, service.ErrStaleFence)
	delivered(a, 2, 6, nil) // never back
	wantBehind(orders.Delivered{SKU: a, Number: 3}, orders.Delivered{SKU: b})
	delivered(a, 4, 1<<63+1, nil)
	delivered(a, 4, 1<<63, service.ErrStaleFence)
	delivered(b, 1, 1, nil)
	wantBehind()
}

func ledgerText(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	moved := journal(t, d, sku)
	if want := `quote ' " \ % 库存`; moved[0].Reason != want {
		t.Errorf("reason %q, want %q", moved[0].Reason, want)
	}
	var seen time.Time
	id := newID()
	about := orders.About{SKUs: []service.SKU{sku}, Customer: "Ann.-_:9", Key: keyed("1")}
	reply := step(t, d, about, func(s orders.State) (orders.Changes, error) {
		seen = s.Now
		c, err := hold(id, about.Customer, 90*time.Minute, line(sku, 1))(s)
		c.Reply = []byte("\x00\xff ' \\ 库")
		return c, err
	})
	again, replayed, err := d.Step(short(t), about, nil)
	if string(reply) != "\x00\xff ' \\ 库" || string(again) != string(reply) || !replayed || err != nil {
		t.Errorf("reply %q, then %q, %v, %v", reply, again, replayed, err)
	}
	r, err := d.Reservation(short(t), id)
	if err != nil || r.CreatedAt != seen || r.ExpiresAt != seen.Add(90*time.Minute) || r.Customer != about.Customer ||
		seen.Location() != time.UTC || seen.Nanosecond()%1000 != 0 {
		t.Errorf("at %v: %+v, %v", seen, r, err)
	}
}

func ledgerCancelled(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	cause := errors.New("the client is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, about := range []orders.About{
		{SKUs: []service.SKU{sku}}, {SKUs: []service.SKU{sku}, Key: keyed("1")},
	} {
		if _, _, err := d.Step(ctx, about, adjust(sku, 1)); !errors.Is(err, cause) {
			t.Errorf("%v, want the cause", err)
		}
	}
	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	_, _, err := d.Step(late, orders.About{SKUs: []service.SKU{sku}}, adjust(sku, 1))
	if !errors.Is(err, lock.ErrDown) {
		t.Errorf("%v, want ErrDown", err)
	}
	level(t, d, sku, 100, 0, 0)
}

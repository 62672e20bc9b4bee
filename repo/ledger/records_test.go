package ledger_test

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
	"example.com/stock/repo/repotest"
	"example.com/stock/service"
	orders "example.com/stock/service/order"
)

// recordClauses are what the ledgers of both stores promise besides ledgerClauses: what they make, keep, find and
// refuse.
var recordClauses = []ledgerClause{
	{"ledger-carts", "Carts with the same SKUs in other orders lose no unit, and do not deadlock.", ledgerCarts},
	{"ledger-key-skus", "That holds if each of them is about another SKU.", ledgerKeySKUs},
	{"ledger-unknown", "Nothing but Create makes a SKU, and only if something is moved.", ledgerUnknown},
	{"ledger-create-many", "30 at once that make the same SKUs make each once.", ledgerCreateMany},
	{"ledger-customer", "What a customer has is counted, reserved and sold, and given back.", ledgerCustomer},
	{"ledger-sweep", "Three sweepers at once give each unit back once.", ledgerSweep},
	{"ledger-due", "Reservations are due when their time is over, the longest over first.", ledgerDue},
	{"ledger-records", "Orders of a customer come newest first, page by page, each once.", ledgerRecords},
	{"ledger-outbox", "What was moved and not delivered is behind; an older fence is refused.", ledgerOutbox},
	{"ledger-text", "Text and times come back as they went in.", ledgerText},
	{"ledger-refusal", "What decide refuses is not written, and decide's error comes back.", ledgerRefusal},
	{"ledger-books", "A decision that breaks the books is not written.", ledgerBooks},
	{"ledger-key-refused", "A refusal keeps no key; a reply alone does.", ledgerKeyRefused},
	{"ledger-states", "A reservation ends once, however many end it at once.", ledgerStates},
	{"ledger-cancelled", "With a ctx that is over nothing is written, and the error has its cause.", ledgerCancelled},
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
	_, read := d.shop().Read(short(t), sku)
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
	bought := ordered(t, d, "ann", line(sku, 3)) // what was bought before there was a limit counts
	if err := d.SetPolicy(short(t), sku, 50); err != nil {
		t.Fatal(err)
	}
	taken("ann", 3)
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
		if err := d.SetPolicy(short(t), sku, wrong); invalid(err) != repotest.ErrInvalid {
			t.Errorf("policy %d: %v", wrong, err)
		}
	}
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

func ledgerDue(t *testing.T, d desk, sku service.SKU) {
	stocked(t, d, sku, 100)
	later := held(t, d, "ann", time.Minute, line(sku, 1))
	second := held(t, d, "ann", -time.Minute, line(sku, 1))
	first := held(t, d, "ann", -time.Hour, line(sku, 1))
	all := []string{first, second, later}
	if got := due(t, d, all...); !slices.Equal(got, all[:2]) {
		t.Errorf("due %v, want %v", got, all[:2])
	}
	if got, err := d.Due(short(t), 0, 1); len(got) != 1 || err != nil {
		t.Errorf("one of them: %v, %v", got, err)
	}
	if rest, err := d.Due(short(t), 100_000, 1); len(rest) != 0 || err != nil {
		t.Errorf("without the first 100,000: %v, %v", rest, err)
	}
	found, err := d.Due(short(t), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(found, func(r orders.Reservation) bool { return r.ID == first })
	if at < 0 || found[at].Customer != "ann" || !slices.Equal(found[at].Lines, []orders.Line{line(sku, 1)}) ||
		found[at].State != orders.Held || found[at].ExpiresAt.IsZero() {
		t.Errorf("found %+v", found)
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
		if _, _, err := d.Orders(short(t), customer, wrong, 5); invalid(err) != repotest.ErrInvalid {
			t.Errorf("cursor %q: %v", wrong, err)
		}
	}
	if _, _, err := d.Orders(short(t), customer, "", 0); invalid(err) != repotest.ErrInvalid {
		t.Errorf("limit 0: %v", err)
	}
}

func (d desk) outbox() orders.Outbox { return d.ledger.(orders.Outbox) }

// behind returns how far the SKUs with that prefix are, of those that are behind.
func behind(t testing.TB, d desk, prefix service.SKU, limit int) (mine []orders.Delivered) {
	t.Helper()
	all, err := d.outbox().Behind(short(t), prefix, limit)
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
	mustSet(t, d.shop(), sku+"-c", 10) // nothing moved
	wantBehind := func(want ...orders.Delivered) {
		t.Helper()
		if got := behind(t, d, sku, 100); !slices.Equal(got, want) {
			t.Errorf("behind %+v, want %+v", got, want)
		}
	}
	delivered := func(sku service.SKU, number, fence uint64, want error) {
		t.Helper()
		err := d.outbox().Delivered(short(t), orders.Delivered{SKU: sku, Number: number}, fence)
		if !errors.Is(err, want) {
			t.Errorf("delivered %d with fence %d: %v, want %v", number, fence, err, want)
		}
	}
	wantBehind(orders.Delivered{SKU: a}, orders.Delivered{SKU: b})
	if got := behind(t, d, sku, 1); len(got) != 1 || got[0].SKU != a {
		t.Errorf("the first: %v", got)
	}
	if got, err := d.outbox().Behind(short(t), a, 1); err != nil || len(got) != 1 || got[0].SKU != b {
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
	again, replayed, err := d.Step(short(t), about, hold(newID(), about.Customer, time.Minute, line(sku, 1)))
	if string(reply) != "\x00\xff ' \\ 库" || string(again) != string(reply) || !replayed || err != nil {
		t.Errorf("reply %q, then %q, %v, %v", reply, again, replayed, err)
	}
	r, err := d.Reservation(short(t), id)
	if err != nil || r.CreatedAt != seen || r.ExpiresAt != seen.Add(90*time.Minute) || r.Customer != about.Customer ||
		seen.Location() != time.UTC || seen.Nanosecond()%1000 != 0 {
		t.Errorf("at %v: %+v, %v", seen, r, err)
	}
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

// ordered places an order of one line, and returns its id.
func ordered(t testing.TB, d desk, customer string, lines ...orders.Line) string {
	t.Helper()
	id := newID()
	step(t, d, orders.About{SKUs: skusOf(lines), Customer: customer}, place(id, customer, lines...))
	return id
}

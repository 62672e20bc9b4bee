package stock_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// clauses are what both stores promise. Every check gets a SKU of its own.
var clauses = []clause{
	{"set-read", "A SKU that is set is read as it was set.", setRead},
	{"set-again", "Setting again begins a later epoch, and forgets fence, guard and what was sold.", setAgain},
	{"set-many", "Of several that set the stock at once each begins an epoch, and no order is lost.", setMany},
	{"unknown", "Nothing but Set and Seed makes a SKU.", unknownSKU},
	{"limits", "Stock goes up to service.MaxStock and down to 0.", limits},
	{"write", "A write sets quantity, counts version and sold, and records the order as it was given.", writeRecords},
	{"blind", "Two writes from one read lose an update, and what was sold shows it.", writeIsBlind},
	{"fence", "A smaller fence is refused and writes nothing; an equal, a larger and none are accepted.", fence},
	{"long-fence", "Fences beyond 2^53, where doubles end, are compared and kept exactly.", longFence},
	{"guard", "The strategy that wrote first is the only one that may, until the stock is set.", guard},
	{"reset", "A sale that read before the stock was set cannot write after.", reset},
	{"anew", "What has read books that were deleted and set anew writes nothing into the new ones.", booksAnew},
	{"anew-segments", "Nor does a sale or a move that has read their segments.", segmentsAnew},
	{"clock-behind", "If the clock of the server is behind the last epoch, the next one is one more.", clockBehind},
	{"quantity", "A write that replaces a quantity that was read also compares it.", comparesQuantity},
	{"deduct", "Deduct tells what it read and wrote, and records it.", deduct},
	{"sold-out", "Deduct takes all or nothing, and says how many are left.", soldOut},
	{"precedence", "Of several reasons the first counts: unknown SKU, epoch, guard, fence, sold out.", precedence},
	{"swap", "A swap writes what nobody has changed since it was read, and is refused as Write is.", swap},
	{"segments", "Units move between parts and none are made or lost; the whole looks as if it were one.", segments},
	{"segment-sale", "A sale from a segment reads, checks and writes the segment's numbers alone.", segmentSale},
	{"segment-blind", "Two blind writes to a segment lose an update, and the whole shows it.", segmentBlind},
	{"refill-refused", "A move that does not find what was read does nothing.", refillRefused},
	{"refill-many", "Moves and sales at once make and lose nothing.", refillMany},
	{
		"segments-reset",
		"Setting the stock ends its segments, and with them the sales and moves that have read them.",
		segmentsReset,
	},
	{"pages", "Orders come in the order written, page by page, each once.", pages},
	{"cursors", "A cursor that is no cursor is refused; so is one of an epoch that is over.", cursors},
	{"cancelled", "With a ctx that is over nothing is written, and the error has its cause.", cancelled},
	{"case", "SKUs that differ in case are different.", caseMatters},
	{"text", "Text comes back as it went in, whatever is in it.", textIsKept},
}

// allClauses are those of every subject: see the files of their checks.
func allClauses() []clause {
	return slices.Concat(clauses, batching, settling, withKeys, conditions, raising)
}

func TestClauses(t *testing.T) {
	t.Parallel()
	for _, store := range []struct {
		name string
		open func(t *testing.T) shop
	}{{"redis", realRedis}, {"mysql", realMySQL}} {
		t.Run(store.name, func(t *testing.T) {
			t.Parallel()
			s := store.open(t)
			for _, clause := range allClauses() {
				t.Run(clause.name, func(t *testing.T) {
					t.Parallel()
					clause.check(t, s, service.SKU("sku-"+clause.name))
					if t.Failed() {
						t.Log("broken:", clause.text)
					}
				})
			}
		})
	}
}

// A clause is one promise of every store, and a check of it.
type clause struct {
	name, text string
	check      func(t *testing.T, s shop, sku service.SKU)
}

// refused wants target, and nothing changed by op.
func refused(t *testing.T, s shop, sku service.SKU, target error, op func() error) {
	t.Helper()
	before, orders := mustRead(t, s, sku), len(allOrders(t, s, sku))
	if err := op(); !errors.Is(err, target) || errors.Is(err, lock.ErrDown) {
		t.Errorf("error %v, want %v, which is no fault of the server", err, target)
	}
	want(t, s, before)
	if got := len(allOrders(t, s, sku)); got != orders {
		t.Errorf("a refusal left %d orders, there were %d", got, orders)
	}
}

func setRead(t *testing.T, s shop, sku service.SKU) {
	got := mustSet(t, s, sku, 100)
	stock := service.Stock{SKU: sku, Quantity: 100, Initial: 100, Version: 1, Epoch: got.Epoch}
	if got != stock || got.Epoch == 0 || got.Epoch > 1<<53 {
		t.Errorf("Set returned %+v, want %+v, and an epoch that a double can hold", got, stock)
	}
	want(t, s, stock)
}

func setAgain(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 100))
	o.Fence = 7
	if err := s.Write(short(t), o); err != nil {
		t.Fatal(err)
	}
	got := mustSet(t, s, sku, 50)
	stock := service.Stock{SKU: sku, Quantity: 50, Initial: 50, Version: 3, Epoch: got.Epoch}
	if got != stock || got.Epoch <= o.Epoch {
		t.Errorf("Set returned %+v, want %+v", got, stock)
	}
	want(t, s, stock)
}

func setMany(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	before, err := s.Deduct(short(t), order(service.Stock{SKU: sku}))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			_, err := s.Set(short(t), sku, 100, service.Condition{})
			for errors.Is(err, lock.ErrHeld) { // too many deadlocks in a row, on a busy computer
				_, err = s.Set(short(t), sku, 100, service.Condition{})
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if now := mustRead(t, s, sku); now.Version != before.Version+5 {
		t.Errorf("version %d after one sale and four settings of version %d", now.Version, before.Version)
	}
	wantWritten(t, s, before)
	balanced(t, s, sku, 0)
}

func unknownSKU(t *testing.T, s shop, sku service.SKU) {
	o := order(service.Stock{SKU: sku, Quantity: 5, Epoch: 1})
	_, read := s.Read(short(t), sku)
	_, deducted := s.Deduct(short(t), o)
	_, batched := s.Batch(short(t), []service.Order{o, o})
	_, _, listed := s.Orders(short(t), sku, "", 1)
	for what, err := range map[string]error{
		"Read": read, "Write": s.Write(short(t), o), "Deduct": deducted, "Batch": batched, "Orders": listed,
	} {
		if !errors.Is(err, service.ErrUnknownSKU) {
			t.Errorf("%s: %v, want ErrUnknownSKU", what, err)
		}
	}
}

func limits(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, service.MaxStock))
	o.Quantity, o.Remaining = service.MaxQuantity, service.MaxStock-service.MaxQuantity
	if err := s.Write(short(t), o); err != nil {
		t.Fatal(err)
	}
	o.ID, o.Quantity, o.Epoch = o.ID[1:], service.MaxQuantity, 0
	if got, err := s.Deduct(short(t), o); err != nil || got.Remaining != service.MaxStock-2*service.MaxQuantity {
		t.Fatalf("Deduct: %+v, %v", got, err)
	}
	stock := mustSet(t, s, sku, 1)
	if _, err := s.Deduct(short(t), order(stock)); err != nil {
		t.Error(err)
	}
	want(t, s,
		service.Stock{SKU: sku, Initial: 1, Sold: 1, Version: stock.Version + 1, Epoch: stock.Epoch, Guard: "none"})
}

func writeRecords(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	o := order(stock)
	o.Quantity, o.Remaining, o.Fence = 3, 97, 1_800_000_000_000_000
	if err := s.Write(short(t), o); err != nil {
		t.Fatal(err)
	}
	want(t, s, service.Stock{
		SKU: sku, Quantity: 97, Initial: 100, Sold: 3,
		Version: 2, Epoch: stock.Epoch, Fence: 1_800_000_000_000_000, Guard: "none",
	})
	if got := allOrders(t, s, sku); len(got) != 1 || got[0] != o {
		t.Errorf("orders %+v\nwant   %+v", got, o)
	}
}

func writeIsBlind(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	for range 2 {
		if err := s.Write(short(t), order(stock)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s, service.Stock{
		SKU: sku, Quantity: 99, Initial: 100, Sold: 2, Version: 3, Epoch: stock.Epoch, Guard: "none",
	})
	if o := allOrders(t, s, sku); len(o) != 2 || o[0].Version != o[1].Version {
		t.Errorf("the two orders should have seen the same version: %+v", o)
	}
}

func fence(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	for _, step := range []struct {
		fence, seen uint64
		err         error
	}{
		{10, 10, nil},
		{9, 10, service.ErrStaleFence},
		{10, 10, nil},
		{0, 10, nil},
		{100, 100, nil},
		{99, 100, service.ErrStaleFence},
	} {
		stock := mustRead(t, s, sku)
		o := order(stock)
		o.Fence = step.fence
		if step.err != nil {
			refused(t, s, sku, step.err, func() error { return s.Write(short(t), o) })
			continue
		}
		if err := s.Write(short(t), o); err != nil {
			t.Errorf("fence %d: %v", step.fence, err)
		}
		if got := mustRead(t, s, sku); got.Fence != step.seen || got.Quantity != stock.Quantity-1 {
			t.Errorf("after fence %d: %+v", step.fence, got)
		}
	}
}

func longFence(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	for _, next := range []uint64{1_800_000_000_000_000, 1<<53 + 1, 1<<53 + 2, math.MaxUint64} {
		o := order(mustRead(t, s, sku))
		o.Fence = next
		if err := s.Write(short(t), o); err != nil {
			t.Fatal(err)
		}
		o = order(mustRead(t, s, sku))
		if o.Fence = next - 1; mustRead(t, s, sku).Fence != next {
			t.Fatalf("fence %d is kept as %d", next, mustRead(t, s, sku).Fence)
		}
		refused(t, s, sku, service.ErrStaleFence, func() error { return s.Write(short(t), o) })
	}
}

func guard(t *testing.T, s shop, sku service.SKU) {
	if err := s.Write(short(t), order(mustSet(t, s, sku, 100))); err != nil {
		t.Fatal(err)
	}
	o := order(mustRead(t, s, sku))
	o.Strategy = "redis-setnx"
	var guarded *service.GuardError
	refused(t, s, sku, service.ErrGuarded, func() error {
		err := s.Write(short(t), o)
		if !errors.As(err, &guarded) || guarded.Guard != "none" {
			t.Errorf("the error %v should name the guard", err)
		}
		return err
	})
	o.Epoch = mustSet(t, s, sku, 100).Epoch
	if err := s.Write(short(t), o); err != nil {
		t.Errorf("after the stock was set: %v", err)
	}
}

func reset(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 100))
	mustSet(t, s, sku, 100)
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Write(short(t), o) })
	o.Epoch = 0 // an order that never read
	refused(t, s, sku, service.ErrStockReset, func() error { return s.Write(short(t), o) })
}

func deduct(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	o := order(service.Stock{SKU: sku})
	o.Quantity, o.Fence = 3, 5
	got, err := s.Deduct(short(t), o)
	if err != nil {
		t.Fatal(err)
	}
	o.Read, o.Remaining, o.Version, o.Epoch = 100, 97, stock.Version, stock.Epoch
	if got != o {
		t.Errorf("Deduct returned %+v\nwant %+v", got, o)
	}
	if all := allOrders(t, s, sku); len(all) != 1 || all[0] != o {
		t.Errorf("orders %+v\nwant   %+v", all, o)
	}
	want(t, s, service.Stock{
		SKU: sku, Quantity: 97, Initial: 100, Sold: 3, Version: 2, Epoch: stock.Epoch, Fence: 5, Guard: "none",
	})
}

func soldOut(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 2))
	o.Quantity = 3
	var out *service.SoldOutError
	refused(t, s, sku, service.ErrSoldOut, func() error {
		_, err := s.Deduct(short(t), o)
		if !errors.As(err, &out) || out.Remaining != 2 {
			t.Errorf("the error %v should say that 2 are left", err)
		}
		return err
	})
	o.Quantity = 2
	if got, err := s.Deduct(short(t), o); err != nil || got.Remaining != 0 {
		t.Errorf("the last two: %+v, %v", got, err)
	}
	o.Quantity = 1
	refused(t, s, sku, service.ErrSoldOut, func() error { _, err := s.Deduct(short(t), o); return err })
}

func precedence(t *testing.T, s shop, sku service.SKU) {
	first := order(mustSet(t, s, sku, 1))
	epoch := first.Epoch
	first.Fence = 10
	if _, err := s.Deduct(short(t), first); err != nil {
		t.Fatal(err)
	}
	// All is wrong at first, and then one thing after the other is put right.
	o := order(service.Stock{SKU: sku, Quantity: 5})
	o.Epoch, o.Strategy, o.Fence = 7, "atomic", 9
	for _, step := range []struct {
		target error
		right  func()
	}{
		{service.ErrStockReset, func() { o.Epoch = epoch }},
		{service.ErrGuarded, func() { o.Strategy = "none" }},
		{service.ErrStaleFence, func() { o.Fence = 10 }},
		{service.ErrSoldOut, func() {}},
	} {
		refused(t, s, sku, step.target, func() error { _, err := s.Deduct(short(t), o); return err })
		if step.target != service.ErrSoldOut {
			refused(t, s, sku, step.target, func() error { return s.Write(short(t), o) })
		}
		step.right()
	}
}

func pages(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	for i := range 5 {
		o := order(stock)
		o.ID = fmt.Sprintf("%s-order-%d", sku, i)
		if err := s.Write(short(t), o); err != nil {
			t.Fatal(err)
		}
	}
	for limit, sizes := range map[int][]int{1: {1, 1, 1, 1, 1}, 2: {2, 2, 1}, 5: {5}, 6: {5}} {
		from, seen := "", 0
		for _, size := range sizes {
			page, next, err := s.Orders(short(t), sku, from, limit)
			if err != nil || len(page) != size {
				t.Fatalf("limit %d, cursor %q: %d orders, %v; want %d", limit, from, len(page), err, size)
			}
			for _, o := range page {
				if id := fmt.Sprintf("%s-order-%d", sku, seen); o.ID != id {
					t.Errorf("limit %d: order %s, want %s", limit, o.ID, id)
				}
				seen++
			}
			from = next
		}
		if from != "" {
			t.Errorf("limit %d: the last page has a next one, %q", limit, from)
		}
	}
}

func cursors(t *testing.T, s shop, sku service.SKU) {
	for range 3 {
		if _, err := s.Deduct(short(t), order(mustSet(t, s, sku, 100))); err != nil {
			t.Fatal(err)
		}
	}
	stock := mustRead(t, s, sku)
	if _, err := s.Deduct(short(t), order(stock)); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"x", "1", "1.", ".1", "1.x", "0.1", "1.-1", "1.2.3", "99999999999999999999.1"} {
		if _, _, err := s.Orders(short(t), sku, wrong, 1); !errors.Is(err, service.ErrInvalid) {
			t.Errorf("cursor %q: %v, want an InvalidError", wrong, err)
		}
	}
	_, next, err := s.Orders(short(t), sku, "", 1)
	if err != nil || next == "" {
		t.Fatalf("next %q, %v", next, err)
	}
	mustSet(t, s, sku, 100)
	if _, _, err := s.Orders(short(t), sku, next, 1); !errors.Is(err, service.ErrStockReset) {
		t.Errorf("cursor of the epoch before: %v, want ErrStockReset", err)
	}
}

func cancelled(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 100)
	cause := errors.New("the lease was lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	refused(t, s, sku, cause, func() error { return s.Write(ctx, order(stock)) })
	refused(t, s, sku, cause, func() error { _, err := s.Deduct(ctx, order(stock)); return err })
	refused(t, s, sku, cause, func() error { _, err := s.Set(ctx, sku, 1, service.Condition{}); return err })
	refused(t, s, sku, cause, func() error { _, err := s.Read(ctx, sku); return err })
	refused(t, s, sku, context.Canceled, func() error { return s.Write(ctx, order(stock)) })

	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	if err := s.Write(late, order(stock)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("too late: %v", err)
	}
	want(t, s, stock)
}

func caseMatters(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku+"-a", 1)
	mustSet(t, s, sku+"-A", 2)
	if a, b := mustRead(t, s, sku+"-a"), mustRead(t, s, sku+"-A"); a.Quantity != 1 || b.Quantity != 2 {
		t.Errorf("a %d, A %d", a.Quantity, b.Quantity)
	}
}

func textIsKept(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 100))
	o.RequestID = `quote ' " \ % <&> 库存 😀 %d {0} \' ; DROP TABLE stock`
	o.Instance = "instance\n\t\x00"
	if err := s.Write(short(t), o); err != nil {
		t.Fatal(err)
	}
	d := o
	d.ID += "2"
	d, err := s.Deduct(short(t), d)
	if err != nil {
		t.Fatal(err)
	}
	if got := allOrders(t, s, sku); len(got) != 2 || got[0] != o || got[1] != d {
		t.Errorf("orders %+v\nwant   %+v\nand    %+v", got, o, d)
	}
}

package repo_test

import (
	"errors"
	"testing"

	"example.com/stock/service"
)

// What both stores promise, a sentence each. Every check gets a SKU of its own.
var sentences = []promised{
	{"set-read", "A SKU that is set is read as it was set, in epoch 1.", setRead},
	{"set-again", "Setting again adds one to epoch and version and forgets fence, guard and what was sold.", setAgain},
	{"seed", "Seeding makes a SKU once and then leaves it alone.", seed},
	{"unknown", "Nothing but Set and Seed makes a SKU.", unknownSKU},
	{"limits", "Stock goes up to service.MaxStock and down to 0, and no further.", limits},
	{"write", "A write sets quantity, counts version and sold, and records the order as it was given.", writeRecords},
	{"blind", "Two writes from one read lose an update, and what was sold shows it.", writeIsBlind},
	{"fence", "A smaller fence is refused and writes nothing; an equal, a larger and none are accepted.", fence},
	{"long-fence", "Fences beyond 2^53, where doubles end, are compared and kept exactly.", longFence},
	{"guard", "The strategy that wrote first is the only one that may, until the stock is set.", guard},
	{"reset", "A sale that read before the stock was set cannot write after.", reset},
	{"deduct", "Deduct tells what it read and wrote, and records it.", deduct},
	{"sold-out", "Deduct takes all or nothing, and says how many are left.", soldOut},
	{"deduct-refused", "Deduct is refused as Write is.", deductRefused},
	{"precedence", "Of several reasons the first counts: unknown SKU, epoch, guard, fence, sold out.", precedence},
	{"many", "30 at once never oversell by Deduct, and no two of them see the same version.", deductMany},
	{"audit", "What is sold is the sum of the orders, whatever was lost.", audit},
	{"swap", "A swap writes what nobody has changed since it was read, and is refused as Write is.", swap},
	{"swap-many", "Of 30 swaps of one version one succeeds.", swapMany},
	{"segments", "Units move between parts and none are made or lost; the whole looks as if it were one.", segments},
	{"segment-sale", "A sale from a segment reads, checks and writes the segment's numbers alone.", segmentSale},
	{"segment-blind", "Two blind writes to a segment lose an update, and the whole shows it.", segmentBlind},
	{"gather-refused", "A move that does not find what was read does nothing.", gatherRefused},
	{"gather-many", "Moves and sales at once make and lose nothing.", gatherMany},
	{"segments-reset", "Setting the stock ends its segments, and with them the sales and moves that have read them.", segmentsReset},
	{"pages", "Orders come in the order written, page by page, each once.", pages},
	{"epochs", "Orders of an earlier epoch do not count and are not shown.", epochs},
	{"cursors", "A cursor that is no cursor is refused; so is one of an epoch that is over.", cursors},
	{"cancelled", "With a ctx that is over nothing is written, and the error has its cause.", cancelled},
	{"case", "SKUs that differ in case are different.", caseMatters},
	{"text", "Text comes back as it went in, whatever is in it.", textIsKept},
}

func TestSentences(t *testing.T) { everywhere(t, sentences) }

// A promised is what every store promises, and a check of it.
type promised struct {
	name, sentence string
	check          func(t *testing.T, s shop, sku service.SKU)
}

// everywhere checks a list on every store.
func everywhere(t *testing.T, list []promised) {
	for _, store := range []struct {
		name string
		open func(t testing.TB) shop
	}{{"redis", realRedis}, {"miniredis", miniRedis}, {"mysql", realMySQL}} {
		t.Run(store.name, func(t *testing.T) {
			s := store.open(t)
			for _, line := range list {
				t.Run(line.name, func(t *testing.T) {
					line.check(t, s, service.SKU("sku-"+line.name))
					if t.Failed() {
						t.Log("broken:", line.sentence)
					}
				})
			}
		})
	}
}

// want compares a stock.
func want(t *testing.T, s shop, stock service.Stock) {
	t.Helper()
	if got := mustRead(t, s, stock.SKU); got != stock {
		t.Errorf("read  %+v\nwant  %+v", got, stock)
	}
}

// refused wants target, and nothing changed by op.
func refused(t *testing.T, s shop, sku service.SKU, target error, op func() error) {
	t.Helper()
	before, orders := mustRead(t, s, sku), len(allOrders(t, s, sku))
	if err := op(); !errors.Is(err, target) {
		t.Errorf("error %v, want %v", err, target)
	}
	want(t, s, before)
	if got := len(allOrders(t, s, sku)); got != orders {
		t.Errorf("a refusal left %d orders, there were %d", got, orders)
	}
}

func setRead(t *testing.T, s shop, sku service.SKU) {
	stock := service.Stock{SKU: sku, Quantity: 100, Initial: 100, Version: 1, Epoch: 1}
	if got := mustSet(t, s, sku, 100); got != stock {
		t.Errorf("Set returned %+v, want %+v", got, stock)
	}
	want(t, s, stock)
}

func setAgain(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 100))
	o.Fence = 7
	if err := s.Write(short(t), o); err != nil {
		t.Fatal(err)
	}
	stock := service.Stock{SKU: sku, Quantity: 50, Initial: 50, Version: 3, Epoch: 2}
	if got := mustSet(t, s, sku, 50); got != stock {
		t.Errorf("Set returned %+v, want %+v", got, stock)
	}
	want(t, s, stock)
}

func seed(t *testing.T, s shop, sku service.SKU) {
	for _, quantity := range []int64{10, 20} {
		if err := s.Seed(short(t), sku, quantity); err != nil {
			t.Fatal(err)
		}
		want(t, s, service.Stock{SKU: sku, Quantity: 10, Initial: 10, Version: 1, Epoch: 1})
	}
}

func unknownSKU(t *testing.T, s shop, sku service.SKU) {
	o := order(service.Stock{SKU: sku, Quantity: 5, Epoch: 1})
	_, read := s.Read(short(t), sku)
	_, deducted := s.Deduct(short(t), o)
	_, _, listed := s.Orders(short(t), sku, "", 1)
	for what, err := range map[string]error{"Read": read, "Write": s.Write(short(t), o), "Deduct": deducted, "Orders": listed} {
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
	for _, quantity := range []int64{-1, service.MaxStock + 1} {
		refused(t, s, sku, errInvalid, func() error { _, err := s.Set(short(t), sku, quantity); return invalid(err) })
		refused(t, s, sku, errInvalid, func() error { return invalid(s.Seed(short(t), sku, quantity)) })
		o.Remaining = quantity
		refused(t, s, sku, errInvalid, func() error { return invalid(s.Write(short(t), o)) })
	}
	for _, quantity := range []int64{-1, 0, service.MaxQuantity + 1} {
		o.Remaining, o.Quantity = 0, quantity
		refused(t, s, sku, errInvalid, func() error { return invalid(s.Write(short(t), o)) })
		refused(t, s, sku, errInvalid, func() error { _, err := s.Deduct(short(t), o); return invalid(err) })
	}
	stock := mustSet(t, s, sku, 1)
	if _, err := s.Deduct(short(t), order(stock)); err != nil {
		t.Error(err)
	}
	want(t, s, service.Stock{SKU: sku, Initial: 1, Sold: 1, Version: stock.Version + 1, Epoch: stock.Epoch, Guard: "none"})
}

var errInvalid = errors.New("InvalidError")

// invalid is errInvalid for an InvalidError, which has no sentinel.
func invalid(err error) error {
	if e := new(service.InvalidError); errors.As(err, &e) {
		return errInvalid
	}
	return err
}

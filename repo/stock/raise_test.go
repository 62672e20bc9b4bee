package stock_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"example.com/stock/service"
)

// raising are the clauses about Raise.
var raising = []clause{
	{
		"raise",
		"After Raise a write with a smaller fence is refused although none has been made; an equal one is accepted.",
		raiseRefuses,
	},
	{"raise-claims", "Raising the fence of a stock that nobody guards makes the strategy its guard.", raiseClaims},
	{"raise-up", "It only goes up, beyond 2^53 too, and changes nothing else.", raiseOnlyUp},
	{"raise-guarded", "A stock that another strategy guards is left alone.", raiseGuarded},
	{
		"raise-segment",
		"Raising the fence of a segment refuses sales from that one alone; the fence of the whole is the largest.",
		raiseSegment,
	},
	{
		"raise-absent",
		"A segment that does not exist is made, empty and guarded; earlier refills and stale sales are refused.",
		raiseAbsent,
	},
	{"raise-unknown", "It makes no SKU, and does nothing when ctx is over.", raiseUnknown},
}

func raise(t *testing.T, s shop, sku service.SKU, strategy string, fence uint64) {
	t.Helper()
	if err := s.Raise(short(t), sku, 0, strategy, fence); err != nil {
		t.Errorf("raise to %d: %v", fence, err)
	}
}

func raiseRefuses(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 10))
	raise(t, s, sku, o.Strategy, 9)
	o.Fence = 8
	refused(t, s, sku, service.ErrStaleFence, func() error { return s.Write(short(t), o) })
	o.Fence = 9
	if err := s.Write(short(t), o); err != nil {
		t.Error(err)
	}
}

func raiseClaims(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 10)
	raise(t, s, sku, "mine", 9)
	stock.Fence, stock.Guard = 9, "mine"
	want(t, s, stock)
	refused(t, s, sku, service.ErrGuarded, func() error { return s.Write(short(t), order(stock)) })
}

func raiseOnlyUp(t *testing.T, s shop, sku service.SKU) {
	stock := mustSet(t, s, sku, 10)
	stock.Guard = "mine"
	for _, fence := range []uint64{9, 10, 10, 9, 1<<53 + 1, 1 << 53, 1<<63 + 1} {
		raise(t, s, sku, "mine", fence)
		stock.Fence = max(stock.Fence, fence)
		want(t, s, stock)
	}
}

func raiseGuarded(t *testing.T, s shop, sku service.SKU) {
	o := order(mustSet(t, s, sku, 10))
	if err := s.Write(short(t), o); err != nil {
		t.Fatal(err)
	}
	refused(t, s, sku, service.ErrGuarded, func() error {
		return s.Raise(short(t), sku, 0, "another", 9)
	})
}

func raiseUnknown(t *testing.T, s shop, sku service.SKU) {
	if err := s.Raise(short(t), sku, 0, "mine", 9); !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("%v, want ErrUnknownSKU", err)
	}
	if _, err := s.Read(short(t), sku); !errors.Is(err, service.ErrUnknownSKU) {
		t.Errorf("it is there now: %v", err)
	}
	mustSet(t, s, sku, 10)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	refused(t, s, sku, context.Canceled, func() error { return s.Raise(over, sku, 0, "mine", 9) })
}

func raiseSegment(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	refill(t, s, sku, 1, 20)
	refill(t, s, sku, 2, 20)
	for _, fence := range []uint64{9, 1<<53 + 1, 8} {
		if err := s.Raise(short(t), sku, 2, "none", fence); err != nil {
			t.Fatal(err)
		}
	}
	all := parts(t, s, sku)
	rows := []service.Segment{
		{Number: 1, Quantity: 20, Version: 1},
		{Number: 2, Quantity: 20, Version: 1, Fence: 1<<53 + 1},
	}
	if !slices.Equal(all.Rows, rows) || all.Reserve != 60 || all.Fence != 1<<53+1 {
		t.Errorf("raised: %+v", all)
	}
	first, second := fromSegment(all, 1), fromSegment(all, 2)
	first.Fence, second.Fence = 7, 1<<53
	refused(t, s, sku, service.ErrStaleFence, func() error { return s.Swap(short(t), second) })
	refused(t, s, sku, service.ErrStaleFence, func() error { return s.Write(short(t), second) })
	second.Fence = 1<<53 + 1
	for _, o := range []service.Order{first, second} {
		if err := s.Swap(short(t), o); err != nil {
			t.Errorf("segment %d: %v", o.Segment, err)
		}
	}
	refused(t, s, sku, service.ErrGuarded, func() error {
		return s.Raise(short(t), sku, 3, "another", 9)
	})
}

func raiseAbsent(t *testing.T, s shop, sku service.SKU) {
	mustSet(t, s, sku, 100)
	before := parts(t, s, sku)
	if err := s.Raise(short(t), sku, 3, "none", 9); err != nil {
		t.Fatal(err)
	}
	after := parts(t, s, sku)
	if !slices.Equal(after.Rows, []service.Segment{{Number: 3, Version: 1, Fence: 9}}) || after.Quantity != 100 ||
		after.Reserve != 100 || after.Guard != "none" || after.Version < before.Version {
		t.Errorf("raised: %+v", after)
	}
	late := service.Refill{SKU: sku, Epoch: before.Epoch, Strategy: "none", Into: before.Row(3), Reserve: 10}
	refused(t, s, sku, service.ErrConflict, func() error { return s.Refill(short(t), late) })
	refill(t, s, sku, 3, 10)
	o := fromSegment(parts(t, s, sku), 3)
	o.Fence = 8
	refused(t, s, sku, service.ErrStaleFence, func() error { return s.Swap(short(t), o) })
	o.Fence = 9
	if err := s.Swap(short(t), o); err != nil {
		t.Error(err)
	}
	balanced(t, s, sku, 1)
	mustSet(t, s, sku, 50)
	if again := parts(t, s, sku); len(again.Rows) != 0 || again.Fence != 0 {
		t.Errorf("after setting: %+v", again)
	}
}

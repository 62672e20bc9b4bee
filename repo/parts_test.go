package repo_test

import (
	"testing"

	"example.com/stock/service"
)

// parts reads the segments, and checks that the whole is their sum and what Read says.
func parts(t *testing.T, s shop, sku service.SKU) service.Segments {
	t.Helper()
	all, err := s.Segments(short(t), sku)
	if err != nil {
		t.Fatal(err)
	}
	sum := all.Reserve
	for _, row := range all.Rows {
		sum += row.Quantity
	}
	if sum != all.Quantity || all.Quantity+all.Sold != all.Initial {
		t.Errorf("the parts are %d: %+v", sum, all)
	}
	want(t, s, all.Stock)
	return all
}

// gather moves units to segment into: some from the reserve, all from others.
func gather(t *testing.T, s shop, sku service.SKU, into int, reserve int64, from ...int) {
	t.Helper()
	all := parts(t, s, sku)
	if err := s.Refill(short(t), gathering(all, into, reserve, from...)); err != nil {
		t.Fatalf("gather into %d: %v", into, err)
	}
	after := parts(t, s, sku)
	if after.Quantity != all.Quantity || after.Version <= all.Version {
		t.Errorf("moving units made %+v\nof %+v", after, all)
	}
}

func gathering(all service.Segments, into int, reserve int64, from ...int) service.Refill {
	g := service.Refill{SKU: all.SKU, Epoch: all.Epoch, Strategy: "none", Into: all.Row(into), Reserve: reserve}
	for _, n := range from {
		g.From = append(g.From, all.Row(n))
	}
	return g
}

// fromSegment is an order of one unit by a sale that saw a segment.
func fromSegment(all service.Segments, n int) service.Order {
	row := all.Row(n)
	o := order(service.Stock{SKU: all.SKU, Quantity: row.Quantity, Version: row.Version, Epoch: all.Epoch})
	o.Segment = n
	return o
}

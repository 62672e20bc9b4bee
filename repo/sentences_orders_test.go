package repo_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"example.com/stock/service"
)

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

func epochs(t *testing.T, s shop, sku service.SKU) {
	for range 2 {
		if _, err := s.Deduct(short(t), order(mustSet(t, s, sku, 100))); err != nil {
			t.Fatal(err)
		}
	}
	if all := allOrders(t, s, sku); len(all) != 1 || all[0].Epoch != 2 {
		t.Errorf("orders %+v, want the one of epoch 2", all)
	}
	if got := mustRead(t, s, sku).Sold; got != 1 {
		t.Errorf("sold %d, want 1", got)
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
		if _, _, err := s.Orders(short(t), sku, wrong, 1); invalid(err) != errInvalid {
			t.Errorf("cursor %q: %v, want an InvalidError", wrong, err)
		}
	}
	if _, _, err := s.Orders(short(t), sku, "", 0); invalid(err) != errInvalid {
		t.Errorf("limit 0: %v, want an InvalidError", err)
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
	refused(t, s, sku, cause, func() error { _, err := s.Set(ctx, sku, 1); return err })
	refused(t, s, sku, cause, func() error { _, err := s.Read(ctx, sku); return err })
	refused(t, s, sku, context.Canceled, func() error { return s.Write(ctx, order(stock)) })

	late, stop := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer stop()
	refused(t, s, sku, context.DeadlineExceeded, func() error { return s.Write(late, order(stock)) })
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

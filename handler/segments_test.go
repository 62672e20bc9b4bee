package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"example.com/stock/handler"
	"example.com/stock/lock"
	"example.com/stock/service"
)

// What only some strategies have to say is left out of the replies of the others.
func TestSegmentTriesAndWakeups(t *testing.T) {
	for _, row := range []struct {
		segment, tries, wakeups int
		want                    string
	}{
		{0, 0, 0, "<nil> <nil> <nil>"},
		{0, 1, 1, "<nil> <nil> 1"},
		{0, 3, 0, "<nil> 3 <nil>"},
		{7, 1, 0, "7 <nil> <nil>"},
		{7, 2, 99, "7 2 99"},
	} {
		d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
			r := receipt()
			r.Segment, r.Tries, r.Wakeups = row.segment, row.tries, row.wakeups
			return r, nil
		}}
		sale := ask(t, http.MethodPost, serve(t, d, nil).URL+"/deduct_stock_zk", "")
		conform(t, "Sale", sale.body)
		var got map[string]any
		if err := json.Unmarshal(sale.body, &got); err != nil {
			t.Fatal(err)
		}
		if said := fmt.Sprint(got["segment"], " ", got["tries"], " ", got["wakeups"]); said != row.want {
			t.Errorf("segment %d, tries %d, wake-ups %d: the reply says %s", row.segment, row.tries, row.wakeups, said)
		}
	}
}

// The batch that a sale was made in is told by strategies that merge, and by no other.
func TestSalesTellTheirBatch(t *testing.T) {
	for want, in := range map[string]*service.InBatch{
		"": nil, `{"id":"01900000-0000-7000-8000-000000000001","place":3,"size":30}`: {
			ID: "01900000-0000-7000-8000-000000000001", Place: 3, Size: 30,
		},
	} {
		d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
			r := receipt()
			r.Batch = in
			return r, nil
		}}
		sale := ask(t, http.MethodPost, serve(t, d, nil).URL+"/deduct_stock_zk", "")
		conform(t, "Sale", sale.body)
		wantFields(t, sale.body, map[string]string{"batch": want})
	}
}

// A segmentedService is a fakeService whose orders are of a segment.
type segmentedService struct{ *fakeService }

func (segmentedService) Orders(context.Context, string, service.SKU, string, int) (service.Page, error) {
	o := order()
	o.Segment = 3
	return service.Page{Orders: []service.Order{o}}, nil
}

func TestOrdersTellTheirSegment(t *testing.T) {
	d := &fakeService{}
	s := serve(t, d, func(c *handler.Config) { c.Inventory = segmentedService{d} })
	var orders struct{ Orders []json.RawMessage }
	reply := ask(t, http.MethodGet, s.URL+"/v1/stock/stock/orders", "")
	if err := json.Unmarshal(reply.body, &orders); err != nil || len(orders.Orders) != 1 {
		t.Fatal(err, orders)
	}
	conform(t, "Order", orders.Orders[0])
	if !strings.Contains(string(reply.body), `"segment":3`) {
		t.Errorf("reply %s", reply.body)
	}
}

// Busy without a lock is told in words of its own.
func TestConflictIsBusy(t *testing.T) {
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		return service.Receipt{}, fmt.Errorf("100 tries: %w: %w", lock.ErrHeld, service.ErrConflict)
	}}
	r := ask(t, http.MethodPost, serve(t, d, nil).URL+"/deduct_stock_zk", "")
	wantProblem(t, r, http.StatusServiceUnavailable, "lock_busy")
	if !strings.Contains(r.problem.Detail, "in every try somebody else wrote") || r.Header.Get("Retry-After") == "" {
		t.Errorf("detail %q, Retry-After %q", r.problem.Detail, r.Header.Get("Retry-After"))
	}
}

package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

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

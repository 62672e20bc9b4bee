package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/service"
)

// wantFields compares members of a JSON object, as they are written.
func wantFields(t *testing.T, body []byte, want map[string]string) {
	t.Helper()
	var got map[string]json.RawMessage
	if err := json.Unmarshal(body, &got); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	for name, value := range want {
		if string(got[name]) != value {
			t.Errorf("%s is %s, want %s", name, got[name], value)
		}
	}
}

// Every number of a reply is in its own field: all that can be swapped differ here.
func TestRepliesSayWhatTheServiceSaid(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("far away", 3600))
	o := service.Order{
		ID: "the-order", SKU: "pen", Quantity: 2, Read: 30, Remaining: 28, Version: 4, Epoch: 5,
		Strategy: "zk-sequential",
		Instance: "app-2", RequestID: "r", Fence: 6, Segment: 7, CreatedAt: at,
	}
	sold := service.Receipt{
		Order: o, Store: "mysql", HolderFence: 8, Tries: 2, Wakeups: 9,
		Waited: 1500 * time.Microsecond, Held: 2500 * time.Microsecond,
		AcquiredAt: at, ReleasedAt: at.Add(time.Second),
		ReadAt: at.Add(2 * time.Second), WrittenAt: at.Add(3 * time.Second),
		LeaseLost: true,
	}
	d := &fakeService{
		deduct: func(context.Context, service.Request) (service.Receipt, error) { return sold, nil },
		stock: func(sku service.SKU) (service.Stock, error) {
			s := service.Stock{SKU: sku, Quantity: 1, Initial: 2, Sold: 3, Version: 4, Epoch: 5, Fence: 6, Guard: "g"}
			return s, nil
		},
		settle: func(string, service.SKU, string) (service.Settlement, error) {
			return service.Settlement{Written: true, Order: o}, nil
		},
	}
	url := serve(t, d, nil).URL
	order := map[string]string{
		"order_id": `"the-order"`, "sku": `"pen"`, "quantity": "2", "read": "30", "remaining": "28",
		"version": "4", "epoch": "5",
		"strategy": `"zk-sequential"`, "instance": `"app-2"`, "segment": "7",
	}
	body := ask(t, http.MethodPost, url+"/deduct_stock_zk", "").body
	wantFields(t, body, order)
	wantFields(t, body, map[string]string{
		"store": `"mysql"`, "fence": "8", "tries": "2", "wakeups": "9", "waited_ms": "1.5", "held_ms": "2.5",
		"lease_lost": "true", "acquired_at": `"2026-01-02T02:04:05Z"`, "released_at": `"2026-01-02T02:04:06Z"`,
		"read_at": `"2026-01-02T02:04:07Z"`, "written_at": `"2026-01-02T02:04:08Z"`,
	})
	sold.Tries = 1
	wantFields(t, ask(t, http.MethodPost, url+"/deduct_stock_zk", "").body, map[string]string{"tries": ""})

	wantFields(t, ask(t, http.MethodGet, url+"/v1/stock/pen", "").body, map[string]string{
		"sku": `"pen"`, "store": `"redis"`, "quantity": "1", "initial": "2", "sold": "3", "version": "4", "epoch": "5",
		"fence": "6", "guard": `"g"`,
	})
	wantFields(t, ask(t, http.MethodGet, url+"/v1/stock/pen?store=mysql", "").body, map[string]string{
		"store": `"mysql"`,
	})
	wantFields(t, ask(t, http.MethodGet, url+"/v1/stock/pen/orders", "").body, map[string]string{"next": `"1"`})
	var settled struct{ Order json.RawMessage }
	body = ask(t, http.MethodPost, url+"/v1/stock/pen/orders/the-order/settle?store=mysql", "").body
	_ = json.Unmarshal(body, &settled)
	wantFields(t, settled.Order, order)
	wantFields(t, settled.Order,
		map[string]string{"fence": "6", "request_id": `"r"`, "created_at": `"2026-01-02T02:04:05Z"`})
}

// What an error knows is told.
func TestProblemsSayWhatTheErrorKnows(t *testing.T) {
	var err error
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		return service.Receipt{}, err
	}}
	url := serve(t, d, nil).URL
	err = &service.SoldOutError{Remaining: 3}
	wantFields(t, ask(t, http.MethodPost, url+"/deduct_stock_zk", "").body, map[string]string{"remaining": "3"})
	err = &lock.HeldError{Key: "pen", Holder: "app-2/r"}
	if r := ask(t, http.MethodPost, url+"/deduct_stock_zk", ""); !strings.Contains(r.problem.Detail, "app-2/r") {
		t.Errorf("detail %q does not name the holder", r.problem.Detail)
	}
	for name, helps := range map[string]string{"lock_busy": "true", "sold_out": "false"} {
		wantFields(t, ask(t, http.MethodGet, url+"/problems/"+name, "").body, map[string]string{"retry_helps": helps})
	}
}

// What is on by itself can be said to be on.
func TestTogglesThatAreOn(t *testing.T) {
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil }}
	url := serve(t, d, func(c *options) { c.Demo.Lab = true }).URL
	for query, want := range map[string]service.Lab{
		"fencing=on&heed_loss=on": {}, "fencing=off&heed_loss=on": {Unfenced: true},
		"fencing=on&heed_loss=off": {IgnoreLoss: true},
	} {
		d.asked = nil
		r := ask(t, http.MethodPost, url+"/deduct_stock_zk?"+query, "", "Authorization", "Bearer "+token)
		if r.StatusCode != http.StatusOK || d.asked[0].Lab != want {
			t.Errorf("%s: %d, asked %+v", query, r.StatusCode, d.asked)
		}
	}
}

// The log names the problem. Probes, which come every second, are logged for debugging only.
func TestTheLogNamesTheProblem(t *testing.T) {
	var log bytes.Buffer
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) {
		return service.Receipt{}, service.ErrSoldOut
	}}
	h := build(d, func(c *options) { c.Log = slog.New(slog.NewJSONHandler(&log, nil)) })
	record(h, http.MethodPost, "/deduct_stock_zk", "")
	wantFields(t, log.Bytes(),
		map[string]string{"problem": `"sold_out"`, "strategy": `"zk-sequential"`, "status": "409", "method": `"POST"`})
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		log.Reset()
		if record(h, http.MethodGet, path, ""); path != "/metrics" && log.Len() > 0 { // which is on the other listener
			t.Errorf("%s is logged: %s", path, &log)
		}
	}
}

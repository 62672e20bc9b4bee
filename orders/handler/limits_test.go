package handler_test

import (
	"fmt"
	"sync"
	"testing"

	"example.com/stock/orders/service"
)

// TestLimitPerCustomer: what a customer has, reserved and sold, counts, and what was given back does not.
func TestLimitPerCustomer(t *testing.T) {
	sku := stocked(t, 100)
	want(t, call(t, "PUT", "/v1/stock/"+sku+"/policy", "", map[string]any{"per_customer": 5}), 200)
	order := want(t, call(t, "POST", "/v1/orders", unique("key"), cart(sku, 2)), 201)
	kept := want(t, call(t, "POST", "/v1/reservations", unique("key"), held(sku, 2, 600)), 201)
	over := want(t, call(t, "POST", "/v1/orders", unique("key"), cart(sku, 2)), 409)
	if over.body["type"] != "/problems/limit_reached" || over.body["limit"] != 5.0 || over.body["remaining"] != 1.0 {
		t.Error(over.text)
	}
	if r, err := send("POST", "/v1/orders", unique("key"), "bob", cart(sku, 5)); err != nil || r.status != 201 {
		t.Error("another customer:", r.text, err)
	}
	want(t, call(t, "POST", "/v1/orders/"+order.body["order_id"].(string)+"/cancel", "", nil), 200)
	want(t, call(t, "POST", kept.header.Get("Location")+"/confirm", "", nil), 200)
	want(t, call(t, "POST", "/v1/orders", unique("key"), cart(sku, 3)), 201)
	want(t, call(t, "POST", "/v1/orders", unique("key"), cart(sku, 1)), 409)
	want(t, call(t, "PUT", "/v1/stock/"+sku+"/policy", "", map[string]any{"per_customer": 0}), 200)
	want(t, call(t, "POST", "/v1/orders", unique("key"), cart(sku, 9)), 201)
	want(t, call(t, "PUT", "/v1/stock/"+unique("new")+"/policy", "", map[string]any{"per_customer": 1}), 404)
}

// TestOpenReservations: of twenty reservations of one customer at once, each of another SKU, as many succeed as the
// limit says.
func TestOpenReservations(t *testing.T) {
	who := unique("hoarder")
	var skus []string
	for range 20 {
		skus = append(skus, stocked(t, 5))
	}
	var mu sync.Mutex
	kinds := map[string]int{}
	made := ""
	var callers sync.WaitGroup
	for _, sku := range skus {
		callers.Go(func() {
			r, err := send("POST", "/v1/reservations", unique("key"), who, held(sku, 1, 600))
			mu.Lock()
			defer mu.Unlock()
			kinds[fmt.Sprint(r.status, r.body["type"], r.body["of"], err)]++
			if r.status == 201 {
				made = r.header.Get("Location")
			}
		})
	}
	callers.Wait()
	refused := fmt.Sprint(409, "/problems/too_many_reservations", service.OpenReservations, nil)
	if kinds[refused] != 20-int(limits.Open) {
		t.Fatalf("%v, want %d refused", kinds, 20-limits.Open)
	}
	reserve := func() reply {
		r, err := send("POST", "/v1/reservations", unique("key"), who, held(skus[0], 1, 600))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want(t, reserve(), 409)
	if _, err := send("POST", made+"/cancel", "", who, nil); err != nil {
		t.Fatal(err)
	}
	want(t, reserve(), 201)
}

// TestReservedUnits: the units of all open reservations of a customer count.
func TestReservedUnits(t *testing.T) {
	who, sku := unique("hoarder"), stocked(t, 5000)
	if r, err := send("POST", "/v1/reservations", unique("key"), who, held(sku, 999, 600)); err != nil ||
		r.status != 201 {
		t.Fatal(r.text, err)
	}
	r, err := send("POST", "/v1/reservations", unique("key"), who, held(sku, 2, 600))
	if err != nil || r.body["of"] != service.ReservedUnits || r.body["remaining"] != 1.0 {
		t.Error(r.text, err)
	}
}

// TestConditions: If-Match protects a person's change of stock from one that came between.
func TestConditions(t *testing.T) {
	sku := stocked(t, 5)
	seen := want(t, call(t, "GET", "/v1/stock/"+sku, "", nil), 200).header.Get("ETag")
	change := func(tag string, delta int) int {
		r, err := sendIf(tag, "POST", "/v1/stock/"+sku+"/adjustments",
			map[string]any{"delta": delta, "reason": "count"})
		if err != nil {
			t.Fatal(err)
		}
		return r.status
	}
	for _, c := range []struct {
		tag           string
		delta, status int
	}{
		{seen, 1, 200},
		{seen, 1, 412},
		{`"x"`, 1, 400},
		{`"0"`, 1, 412},
		{"", -6, 200},
		{"", -1, 409},
		{"", 1000000000, 200},
		{"", 1, 409},
	} {
		if got := change(c.tag, c.delta); got != c.status {
			t.Errorf("If-Match %s, %+d: %d, want %d", c.tag, c.delta, got, c.status)
		}
	}
	counts(t, sku, 1e9, 1e9, 0, 0)
}

// TestExtend: an extension is at most a day from when the reservation was made, and never makes it shorter.
func TestExtend(t *testing.T) {
	sku := stocked(t, 5)
	made := want(t, call(t, "POST", "/v1/reservations", unique("key"), held(sku, 1, 600)), 201)
	path := made.header.Get("Location")
	extend := func(ttl int) reply {
		return want(t, call(t, "POST", path+"/extend", "", map[string]any{"ttl_seconds": ttl}), 200)
	}
	if r := extend(1); r.body["expires_at"] != made.body["expires_at"] || r.body["extended_at"] != nil {
		t.Error("shorter:", r.text)
	}
	r := extend(86400)
	if d := at(t, r.body["expires_at"]).Sub(at(t, r.body["created_at"])); d != service.MaxTTL {
		t.Error("a day:", d, r.text)
	}
	want(t, call(t, "POST", path+"/confirm", "", nil), 200)
	again := want(t, call(t, "POST", path+"/extend", "", map[string]any{"ttl_seconds": 5}), 409)
	if again.body["state"] != "confirmed" {
		t.Error(again.text)
	}
}

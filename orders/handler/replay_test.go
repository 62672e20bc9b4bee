package handler_test

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestStoredReplies: what the first version has stored with a key is answered by this one. Who renames a field of a
// type of package service, which is what is stored, gets it wrong without this test.
func TestStoredReplies(t *testing.T) {
	const replace = "UPDATE idempotency_keys SET reply = ? ORDER BY created_at DESC LIMIT 1"
	sku := stocked(t, 9)
	for _, c := range []struct {
		method, path string
		body         any
		stored, want string
	}{
		{
			"POST", "/v1/orders", cart(sku, 1),
			`{"Order":{"ID":"0190a0a0-0000-7000-8000-000000000001","Customer":"ann","State":"placed",
			"Lines":[{"SKU":"s","Quantity":2}],
			"ReservationID":"0190a0a0-0000-7000-8000-000000000002","Late":true,
			"CreatedAt":"2026-11-28T07:00:13.123456Z","CanceledAt":null}}`,
			`{"order_id":"0190a0a0-0000-7000-8000-000000000001","customer":"ann","state":"placed",
			"lines":[{"sku":"s","quantity":2}],
			"reservation_id":"0190a0a0-0000-7000-8000-000000000002","late":true,
			"created_at":"2026-11-28T07:00:13.123456Z"}`,
		},
		{
			"POST", "/v1/reservations", held(sku, 1, 60),
			`{"Reservation":{"ID":"0190a0a0-0000-7000-8000-000000000003","Customer":"ann","State":"held",
			"Lines":[{"SKU":"s","Quantity":2}],
			"OrderID":"","CreatedAt":"2026-11-28T07:00:13.123456Z",
			"ExpiresAt":"2026-11-28T08:00:13.123456Z","ExtendedAt":null,"EndedAt":null}}`,
			`{"reservation_id":"0190a0a0-0000-7000-8000-000000000003","customer":"ann","state":"held",
			"lines":[{"sku":"s","quantity":2}],
			"created_at":"2026-11-28T07:00:13.123456Z","expires_at":"2026-11-28T08:00:13.123456Z"}`,
		},
		{
			"POST", "/v1/stock/" + sku + "/adjustments",
			map[string]any{"delta": 1},
			`{"Stock":{"SKU":"s","Received":9,"Available":4,"Reserved":3,"Sold":2,"Number":7,"PerCustomer":5}}`,
			`{"sku":"s","received":9,"available":4,"reserved":3,"sold":2,"number":7,"per_customer":5}`,
		},
	} {
		key := unique("stored")
		if r := call(t, c.method, c.path, key, c.body); r.status/100 != 2 {
			t.Fatal(r.text)
		}
		if _, err := rows.Exec(replace, c.stored); err != nil {
			t.Fatal(err)
		}
		var want map[string]any
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		r := call(t, c.method, c.path, key, c.body)
		if !reflect.DeepEqual(r.body, want) || r.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s %s\n got %s\nwant %s", c.method, c.path, r.text, c.want)
		}
	}
}

// TestKeysOfOthers: a key belongs to a customer, an operation and its target.
func TestKeysOfOthers(t *testing.T) {
	sku, key := stocked(t, 9), unique("key")
	want(t, call(t, "POST", "/v1/orders", key, cart(sku, 1)), 201)
	want(t, call(t, "POST", "/v1/reservations", key, held(sku, 1, 60)), 201)
	if r, err := send("POST", "/v1/orders", key, "bob", cart(sku, 2)); err != nil || r.status != 201 {
		t.Error(r.text, err)
	}
	counts(t, sku, 9, 5, 1, 3)
}

// TestRefusalsAreNotKept: the same key may succeed after a delivery.
func TestRefusalsAreNotKept(t *testing.T) {
	sku, key := stocked(t, 0), unique("key")
	want(t, call(t, "POST", "/v1/orders", key, cart(sku, 1)), 409)
	want(t, call(t, "POST", "/v1/stock/"+sku+"/adjustments", unique("key"), map[string]any{"delta": 1}), 200)
	want(t, call(t, "POST", "/v1/orders", key, cart(sku, 1)), 201)
}

// TestForget: old keys are removed, and only those.
func TestForget(t *testing.T) {
	sku, old, young := stocked(t, 9), unique("old"), unique("young")
	want(t, call(t, "POST", "/v1/orders", old, cart(sku, 1)), 201)
	if _, err := rows.Exec("UPDATE idempotency_keys SET created_at = created_at - INTERVAL 25 HOUR"); err != nil {
		t.Fatal(err)
	}
	want(t, call(t, "POST", "/v1/orders", young, cart(sku, 1)), 201)
	kept := scan(t, "SELECT COUNT(*) FROM idempotency_keys")
	if n, err := store.Forget(t.Context(), day, 1000); err != nil || int64(n) != kept-1 {
		t.Errorf("%d of %d are forgotten, %v", n, kept, err)
	}
	if r := call(t, "POST", "/v1/orders", young, cart(sku, 1)); r.header.Get("Idempotent-Replayed") != "true" {
		t.Error(r.text)
	}
}

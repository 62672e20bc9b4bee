package handler_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"example.com/stock/orders/api"
)

// TestDocumentIsServed: every operation of the document is served, and nothing else.
func TestDocumentIsServed(t *testing.T) {
	doc, err := api.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	documented, served := map[string]bool{}, map[string]bool{}
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented[method+" "+strings.NewReplacer("{", ":", "}", "").Replace(path)] = true
		}
	}
	for _, r := range routes.Routes() {
		served[r.Method+" "+r.Path] = true
	}
	if a, b := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(served)); !slices.Equal(a, b) {
		t.Errorf("documented %v\nserved %v", a, b)
	}
}

// TestOthersAreNotFound: to one customer, what another has is as if there were nothing, for any operation with an id,
// and for whatever name is like the other's.
func TestOthersAreNotFound(t *testing.T) {
	sku, ann := stocked(t, 10), unique("ann")
	by := func(who, method, path string, body any) reply {
		t.Helper()
		r, err := send(method, path, unique("key"), who, body)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	order := want(t, by(ann, "POST", "/v1/orders", cart(sku, 1)), 201).body["order_id"].(string)
	kept := want(t, by(ann, "POST", "/v1/reservations", held(sku, 1, 60)), 201).body["reservation_id"].(string)
	tried := 0
	for _, stranger := range []string{"bob", strings.ToUpper(ann), ann + "\u0301", ann + ".", "%"} {
		for _, r := range routes.Routes() {
			if !strings.Contains(r.Path, ":id") {
				continue
			}
			var body any
			if strings.HasSuffix(r.Path, "/extend") {
				body = map[string]any{"ttl_seconds": 60}
			}
			for _, id := range []string{order, kept} {
				tried++
				a := by(stranger, r.Method, strings.Replace(r.Path, ":id", id, 1), body)
				if a.status != 404 {
					t.Errorf("%s %s by %s: %d %s", r.Method, r.Path, stranger, a.status, a.text)
				}
			}
		}
		if a := by(stranger, "GET", "/v1/orders", nil); strings.Contains(a.text, order) {
			t.Errorf("the list of %s: %s", stranger, a.text)
		}
	}
	if tried < 50 {
		t.Errorf("%d were tried", tried)
	}
	counts(t, sku, 10, 8, 1, 1)
}

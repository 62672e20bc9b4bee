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

// TestOthersAreNotFound: nobody reads or changes what another customer has, by any operation with an id.
func TestOthersAreNotFound(t *testing.T) {
	sku := stocked(t, 10)
	order := want(t, call(t, "POST", "/v1/orders", unique("key"), cart(sku, 1)), 201).body["order_id"].(string)
	kept := want(t, call(t, "POST", "/v1/reservations", unique("key"), held(sku, 1, 60)), 201)
	tried := 0
	for _, r := range routes.Routes() {
		if !strings.Contains(r.Path, ":id") {
			continue
		}
		for _, id := range []string{order, kept.body["reservation_id"].(string)} {
			tried++
			var body any
			if strings.HasSuffix(r.Path, "/extend") {
				body = map[string]any{"ttl_seconds": 60}
			}
			a, err := send(r.Method, strings.Replace(r.Path, ":id", id, 1), "", "bob", body)
			if err != nil || a.status != 404 {
				t.Errorf("%s %s by another customer: %d %s %v", r.Method, r.Path, a.status, a.text, err)
			}
		}
	}
	if a, err := send("GET", "/v1/orders", "", "bob", nil); err != nil || len(a.body["orders"].([]any)) > 0 ||
		tried < 10 {
		t.Errorf("the list of another customer: %s %v", a.text, err)
	}
	counts(t, sku, 10, 8, 1, 1)
}

package repo_test

import (
	"strings"
	"testing"

	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

// TestAudit: each kind of damage is found, and named with its SKU. A CHECK refuses a part of it where the server has
// checks, so they are off here, as after an import.
func TestAudit(t *testing.T) {
	sell(t, "whole", 2)
	all, wrong, err := store.Audit(t.Context())
	if err != nil || len(wrong) > 0 || all == 0 {
		t.Fatalf("%d SKUs, %v, %v", all, wrong, err)
	}
	for sku, damage := range map[string]string{
		"law":      "UPDATE stocks SET available = available - 1 WHERE sku = 'law'",
		"sum":      "UPDATE stocks SET available = available - 1, received = received - 1 WHERE sku = 'sum'",
		"gap":      "UPDATE movements SET number = 7 WHERE sku = 'gap' AND number = 2",
		"stranger": "DELETE FROM stocks WHERE sku = 'stranger'",
		"order":    "DELETE FROM cart_lines WHERE sku = 'order'",
		"reserved": "UPDATE stocks SET available = available - 1, reserved = reserved + 1 WHERE sku = 'reserved'",
	} {
		sell(t, sku, 2)
		exec(t, "SET STATEMENT check_constraint_checks = 0 FOR "+damage)
		_, wrong, err := store.Audit(t.Context())
		if err != nil || len(wrong) == 0 {
			t.Errorf("%s: nothing is found, %v", damage, err)
		}
		for _, w := range wrong {
			if w.SKU != sku || w.Error == "" {
				t.Errorf("%s: %+v", damage, w)
			}
		}
		exec(t, "DELETE FROM stocks WHERE sku = '"+sku+"'")
		exec(t, "DELETE FROM movements WHERE sku = '"+sku+"'")
		exec(
			t,
			"DELETE orders, cart_lines FROM orders LEFT JOIN cart_lines ON owner_id = id WHERE customer = '"+sku+"'",
		)
	}
}

// TestMigrate: two instances migrate at once; an old schema is named, with the command that mends it.
func TestMigrate(t *testing.T) {
	exec(t, "CREATE DATABASE fresh")
	exec(t, "GRANT ALL ON fresh.* TO orders@'%'")
	open := func() *repo.Store {
		s, err := repo.Open(strings.Replace(dsn, "/orders", "/fresh", 1), repo.Options{Connections: 4})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	a, b := open(), open()
	if err := a.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "orders migrate") {
		t.Error("without a schema:", err)
	}
	done := make(chan int, 2)
	for _, s := range []*repo.Store{a, b} {
		go func() {
			applied, err := s.Migrate(t.Context())
			if err != nil {
				t.Error(err)
			}
			done <- len(applied)
		}()
	}
	if n := <-done + <-done; n == 0 {
		t.Error("nothing was applied")
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, dsn := range []string{"x", "u:p@tcp(h:1)/d?loc=Nowhere"} {
		if s, err := repo.Open(dsn, repo.Options{}); err == nil {
			_ = s.Close()
			t.Errorf("%s was accepted", dsn)
		}
	}
}

func sell(t *testing.T, sku string, units int64) {
	t.Helper()
	step := func(ask repo.Ask, rule service.Rule) {
		t.Helper()
		ask.SKUs = []string{sku}
		if _, _, err := store.Step(t.Context(), ask, rule); err != nil {
			t.Fatal(err)
		}
	}
	step(repo.Ask{Create: true}, service.SetStock(sku, 9, "", service.AnyNumber))
	o := service.Order{ID: newID(), Customer: sku, Lines: []service.Line{{SKU: sku, Quantity: units}}}
	step(repo.Ask{}, service.Place(o))
	r := service.Reservation{ID: newID(), Customer: sku, Lines: []service.Line{{SKU: sku, Quantity: 1}}}
	step(repo.Ask{}, service.Reserve(r, service.MaxTTL, service.Limits{}))
}

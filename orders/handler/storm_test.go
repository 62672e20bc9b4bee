package handler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/orders/repo"
	"example.com/stock/orders/service"
)

// What callers did, and what they were told.
type storm struct {
	mu     sync.Mutex
	orders map[string]string // by key
	bodies map[string]any
	types  map[string]int // of replies
	skus   []string
}

// TestStorm: 30 callers buy, reserve, confirm, cancel and let expire, while the server is killed twice. They repeat
// what has no answer, with the same key. Then the books balance, and there is one order for each key and each
// confirmation.
func TestStorm(t *testing.T) {
	name := unique("storm")
	s := &storm{orders: map[string]string{}, bodies: map[string]any{}, types: map[string]int{}}
	for range 4 {
		s.skus = append(s.skus, stocked(t, 9))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var callers sync.WaitGroup
	for i := range 30 {
		callers.Go(func() { s.customer(t, ctx, fmt.Sprintf("%s-%d", name, i)) })
	}
	callers.Go(func() {
		for ctx.Err() == nil {
			// What fails while the server is down, is done later.
			_, _ = store.Sweep(ctx, 10)
			_, _ = send("PUT", "/v1/stock/"+s.skus[rand.IntN(4)], "", "ann", map[string]any{"quantity": 9})
			time.Sleep(50 * time.Millisecond)
		}
	})
	for kills := range 3 {
		s.until(ctx, kills+1)
		if kills == 2 {
			break
		}
		if err := server.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := server.Run(); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	callers.Wait()
	t.Log("replies:", s.types, "orders:", len(s.orders))
	if s.types["/problems/outcome_unknown"]+s.types["/problems/database_down"] == 0 {
		t.Error("nobody noticed the kills")
	}
	s.once(t)
	for _, sku := range s.skus {
		balanced(t, sku)
	}
	one(t, "orders told, and in the tables", int64(len(s.orders)),
		"SELECT COUNT(*) FROM orders WHERE customer LIKE '"+name+"-%'")
	one(t, "movements without an event", 0,
		"SELECT COUNT(*) FROM movements LEFT JOIN outbox USING (sku, number) WHERE outbox.id IS NULL")
	one(t, "events, and movements", scan(t, "SELECT COUNT(*) FROM movements"), "SELECT COUNT(*) FROM outbox")
	one(
		t,
		"units sold, and in orders",
		scan(t, "SELECT SUM(sold) FROM stocks WHERE sku IN ('"+strings.Join(s.skus, "','")+"')"),
		"SELECT SUM(quantity) FROM cart_lines JOIN orders ON id = owner_id"+
			" WHERE state = 'placed' AND customer LIKE '"+name+"-%'",
	)
}

// until waits until there are sales, and carts for which too little was left, for another time.
func (s *storm) until(ctx context.Context, times int) {
	for ctx.Err() == nil {
		s.mu.Lock()
		enough := s.types["201"] >= 40*times && s.types["/problems/sold_out"] >= 5*times
		s.mu.Unlock()
		if enough {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *storm) customer(t *testing.T, ctx context.Context, name string) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("%s/%d", name, n)
		body := map[string]any{}
		var lines []any
		for range 1 + rand.IntN(3) {
			lines = append(lines, map[string]any{"sku": s.skus[rand.IntN(len(s.skus))], "quantity": 1 + rand.IntN(2)})
		}
		body["lines"] = lines
		what := rand.IntN(6)
		if what < 3 {
			if r := s.decided(t, "/v1/orders", key, name, body); r.status == 201 {
				s.told(key, r, body)
				if what == 0 {
					s.decided(t, "/v1/orders/"+r.body["order_id"].(string)+"/cancel", "", name, nil)
				}
			}
			continue
		}
		body["ttl_seconds"] = 1 + 600*rand.IntN(2)
		r := s.decided(t, "/v1/reservations", key, name, body)
		if r.status != 201 {
			continue
		}
		path := "/v1/reservations/" + r.body["reservation_id"].(string)
		switch what {
		case 3, 4:
			if r := s.decided(t, path+"/confirm", "", name, nil); r.status == 200 {
				s.told(path, r, nil)
			}
		case 5:
			s.decided(t, path+"/cancel", "", name, nil)
		}
	}
}

// decided repeats a request until its answer is not about the database.
func (s *storm) decided(t *testing.T, path, key, customer string, body any) reply {
	for {
		r, err := send("POST", path, key, customer, body)
		kind := fmt.Sprint(r.status)
		if of, ok := r.body["type"].(string); ok {
			kind = of
		}
		s.mu.Lock()
		s.types[kind]++
		s.mu.Unlock()
		switch {
		case err != nil:
			t.Error(path, err)
			return r
		case r.status < 500:
			return r
		case r.status == 500:
			t.Error(path, r.text)
			return r
		}
		time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
	}
}

func (s *storm) told(key string, r reply, body any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders[key] = r.body["order_id"].(string)
	s.bodies[key] = body
}

// once sends everything again.
func (s *storm) once(t *testing.T) {
	for key, id := range s.orders {
		name, _, _ := strings.Cut(key, "/")
		path := "/v1/orders"
		if s.bodies[key] == nil {
			continue // a confirmation has no key
		}
		r, err := send("POST", path, key, name, s.bodies[key])
		if err != nil || r.body["order_id"] != id || r.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("key %s made %s, and again %d %s %v", key, id, r.status, r.text, err)
		}
	}
}

// balanced reads the movements of a SKU: no gap, the law after each, and their sum is the stock.
func balanced(t *testing.T, sku string) {
	t.Helper()
	var sum service.Stock
	for {
		page, err := store.Movements(t.Context(), sku, sum.Number, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			if m.Number != sum.Number+1 {
				t.Fatalf("%s: after movement %d comes %d", sku, sum.Number, m.Number)
			}
			if err := sum.Apply(m); err != nil {
				t.Fatalf("%s: movement %d: %v", sku, m.Number, err)
			}
		}
		if len(page) < 100 {
			break
		}
	}
	sum.SKU = sku
	stock, err := store.Stock(t.Context(), sku)
	same(t, stock, sum, err)
}

func one(t *testing.T, what string, want int64, query string) {
	t.Helper()
	if got := scan(t, query); got != want {
		t.Errorf("%s: %d, want %d", what, got, want)
	}
}

func scan(t *testing.T, query string) (n int64) {
	t.Helper()
	if err := rows.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLaw: the database refuses what breaks the law, whoever writes it, and the service says so.
func TestLaw(t *testing.T) {
	sku := stocked(t, 5)
	for _, set := range []string{
		"available = available - 1", "reserved = -1, available = 6", "received = received + 1",
	} {
		if _, err := rows.Exec("UPDATE stocks SET "+set+" WHERE sku = ?", sku); err == nil {
			t.Errorf("%s was written", set)
		}
	}
	_, _, err := store.Step(t.Context(), repo.Ask{SKUs: []string{sku}}, func(s service.State) (service.Changes, error) {
		m := service.Movement{SKU: sku, Number: 2, Kind: service.Sell, At: s.Now}
		level := service.Stock{SKU: sku, Received: 5, Available: 4, Number: 2} // one unit is gone
		return service.Changes{Movements: []service.Movement{m}, Levels: []service.Stock{level}}, nil
	})
	if !errors.Is(err, service.ErrUnbalanced) {
		t.Errorf("a rule that loses a unit: %v", err)
	}
	counts(t, sku, 5, 5, 0, 0)
}

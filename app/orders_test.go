package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/stack/stacktest"
)

// call sends a JSON body, as a client with a key.
func (i *instance) call(t *testing.T, method, path, body, key string) (reply, http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, i.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := i.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var text json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&text); err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, string(text), nil}, resp.Header
}

// wants is call, with the status that it must have.
func (i *instance) wants(t *testing.T, status int, method, path, body string) reply {
	t.Helper()
	r, _ := i.call(t, method, path, body, "")
	if r.status != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, r.status, r.body, status)
	}
	return r
}

// counts are the terms of the law, of one SKU.
func (i *instance) counts(t *testing.T, sku string) string {
	t.Helper()
	r := i.wants(t, http.StatusOK, http.MethodGet, "/v1/stock/"+sku, "")
	return fmt.Sprint(r.field("received"), r.field("available"), r.field("reserved"), r.field("sold"))
}

// An instance of profile orders sells carts, keeps them, takes them back, and has nothing to choose: without a lock,
// and under locks of another server than the stock's.
func TestProfileOrders(t *testing.T) {
	mysql := func(t *testing.T) string { return "--mysql-dsn=" + servers.MariaDB(t) }
	redis := func(t *testing.T) string { return "--redis-addrs=" + servers.Redis(t).Addr }
	zookeeper := func(t *testing.T) string { return "--zookeeper-hosts=" + servers.ZooKeeper(t) }
	for _, row := range []struct {
		store, strategy string
		servers         []func(*testing.T) string
	}{
		{"mysql", "atomic", []func(*testing.T) string{mysql}},
		{"redis", "atomic", []func(*testing.T) string{redis}},
		{"mysql", "redis-watchdog", []func(*testing.T) string{mysql, redis}},
		{"redis", "zk-sequential", []func(*testing.T) string{redis, zookeeper}},
	} {
		t.Run(row.store+" "+row.strategy, func(t *testing.T) {
			t.Parallel()
			args := backends("--profile=orders", "--store="+row.store, "--orders-strategy="+row.strategy)
			for _, server := range row.servers {
				args = append(args, server(t))
			}
			a, b := begin(t, args...), begin(t, args...)
			a.ready(t, row.store)
			b.ready(t, row.store)
			name := row.store + "-" + row.strategy
			book, pen := "orders-"+name+"-book", "orders-"+name+"-pen"
			ann := "ann-" + name // Redis is shared
			is := `{"customer":"` + ann + `"}`
			for _, sku := range []string{book, pen} {
				a.wants(t, 404, http.MethodGet, "/v1/stock/"+sku, "")
				a.wants(t, 200, http.MethodPut, "/v1/stock/"+sku, `{"quantity":10}`)
			}
			if row.store == "mysql" { // other tests sell from the same Redis
				a.wants(t, 404, http.MethodGet, "/v1/stock/stock", "") // nothing is seeded
			}
			a.wants(t, 404, http.MethodPost, "/deduct_stock_atomic", `{"sku":"`+book+`"}`)
			a.wants(t, 404, http.MethodPost, "/v1/stock/"+book+"/deduct", ``)
			if r := a.wants(t, 200, http.MethodGet, "/v1/strategies", ""); strings.Contains(r.body, "none") {
				t.Errorf("strategies: %s", r.body)
			}

			cart := `{"customer":"` + ann + `","lines":[{"sku":"` + pen + `","quantity":1},` +
				`{"sku":"` + book + `","quantity":2}]`
			first, _ := a.call(t, http.MethodPost, "/v1/orders", cart+"}", "k")
			again, header := b.call(t, http.MethodPost, "/v1/orders", cart+"}", "k")
			if first.status != 201 || first.body != again.body || header.Get("Idempotent-Replayed") != "true" {
				t.Fatalf("%d %s, then %d %s %v", first.status, first.body, again.status, again.body, header)
			}
			r := a.wants(t, 409, http.MethodPost, "/v1/orders", strings.ReplaceAll(cart, `"quantity":`,
				`"quantity":9`)+"}")
			if lines, _ := r.field("lines").([]any); len(lines) != 2 {
				t.Errorf("a refusal names every short line: %s", r.body)
			}

			// A reservation expires, on whichever instance, and its units are for sale.
			held := a.wants(t, 201, http.MethodPost, "/v1/reservations", cart+`,"ttl":"1s"}`)
			path := fmt.Sprint("/v1/reservations/", held.field("reservation_id"))
			if got := b.counts(t, book); got != "10 6 2 2" {
				t.Errorf("held: %s", got)
			}
			stacktest.Eventually(t, 20*time.Second, "the reservation is given back", func() (bool, string) {
				r := b.wants(t, 200, http.MethodGet, path+"?customer="+ann, "")
				return r.field("state") == "expired", r.body
			})
			if got := a.counts(t, book); got != "10 8 0 2" {
				t.Errorf("expired: %s", got)
			}
			late := b.wants(t, 200, http.MethodPost, path+"/confirm", is)
			if late.field("late") != true {
				t.Errorf("%s", late.body)
			}
			if got := a.counts(t, book); got != "10 6 0 4" {
				t.Errorf("confirmed late: %s", got)
			}
			if r := a.wants(t, 200, http.MethodPost, path+"/confirm", is); r.body != late.body {
				t.Errorf("again: %s, first %s", r.body, late.body)
			}
			order := fmt.Sprint("/v1/orders/", late.field("order_id"))
			a.wants(t, 404, http.MethodPost, order+"/cancel", `{"customer":"bob"}`)
			a.wants(t, 200, http.MethodPost, order+"/cancel", is)
			b.wants(t, 200, http.MethodPost, order+"/cancel", is)
			if got := a.counts(t, book); got != "10 8 0 2" {
				t.Errorf("canceled: %s", got)
			}

			// A limit, two windows at a time.
			a.wants(t, 200, http.MethodPut, "/v1/stock/"+pen+"/policy", `{"per_customer":3}`)
			one := `{"customer":"eve","lines":[{"sku":"` + pen + `","quantity":1}]}`
			var windows sync.WaitGroup
			var mu sync.Mutex
			var statuses []int
			for _, i := range []*instance{a, b, a, b, a, b} {
				windows.Go(func() {
					r, _ := i.call(t, http.MethodPost, "/v1/orders", one, "")
					mu.Lock()
					statuses = append(statuses, r.status)
					mu.Unlock()
				})
			}
			windows.Wait()
			if slices.Sort(statuses); !slices.Equal(statuses, []int{201, 201, 201, 409, 409, 409}) {
				t.Errorf("statuses %v, want three of each", statuses)
			}
			if got := b.counts(t, pen); got != "10 6 0 4" {
				t.Errorf("limited: %s", got)
			}
			list := b.wants(t, 200, http.MethodGet, "/v1/orders?customer="+ann, "")
			if orders, _ := list.field("orders").([]any); len(orders) != 2 {
				t.Errorf("ann's orders: %s", list.body)
			}
			r = a.wants(t, 200, http.MethodGet, "/v1/stock/"+book+"/movements", "")
			var kinds []string
			for _, m := range r.field("movements").([]any) {
				kinds = append(kinds, fmt.Sprint(m.(map[string]any)["kind"]))
			}
			if got := strings.Join(kinds, " "); got != "set sell reserve expire sell return" {
				t.Errorf("movements: %s", got)
			}
			a.end(t)
			b.end(t)
		})
	}
}

func TestProfiles(t *testing.T) {
	bare(t)
	for _, row := range []struct {
		args       []string
		strategies string
		stores     string
		servers    string
	}{
		{nil, "all", "redis mysql", "redis redlock zookeeper mysql"},
		{[]string{"--strategies-enabled=atomic,none"}, "none atomic", "redis mysql", "redis mysql"},
		{
			[]string{"--strategies-enabled=zk-sequential", "--stores-enabled=redis"},
			"zk-sequential", "redis",
			"redis zookeeper",
		},
		{[]string{"--profile=orders"}, "", "redis", "redis"},
		{[]string{"--profile=orders", "--store=mysql"}, "", "mysql", "mysql"},
		{
			[]string{"--profile=orders", "--store=mysql", "--orders-strategy=zk-sequential"},
			"", "mysql",
			"zookeeper mysql",
		},
		{[]string{"--profile=orders", "--store=mysql", "--orders-strategy=redis-watchdog"}, "", "mysql", "redis mysql"},
		{
			[]string{"--profile=orders", "--store=mysql", "--strategies-enabled=pessimistic"},
			"pessimistic",
			"mysql", "mysql",
		},
		{[]string{"--stores-enabled=mysql", "--store=mysql"}, "all", "mysql", "redis redlock zookeeper mysql"},
		{[]string{"--stores-enabled=redis"}, "all but pessimistic", "redis", "redis redlock zookeeper mysql"},
	} {
		c := mustConfigure(t, row.args...)
		var names, used, needed []string
		for _, s := range c.strategies() {
			names = append(names, s.Name)
		}
		for _, name := range stores() {
			if c.storeEnabled(name) {
				used = append(used, name)
			}
		}
		a := newApp(c, "test", nil)
		for _, server := range a.openers() {
			if c.needs(server.name) {
				needed = append(needed, server.name)
			}
		}
		got := strings.Join(names, " ")
		switch {
		case row.strategies == "all" && len(names) == 19, row.strategies == "all but pessimistic" && len(names) == 18:
		case got != row.strategies:
			t.Errorf("%v: strategies %s, want %s", row.args, got, row.strategies)
		}
		if got := strings.Join(used, " "); got != row.stores {
			t.Errorf("%v: stores %s, want %s", row.args, got, row.stores)
		}
		if got := strings.Join(needed, " "); got != row.servers {
			t.Errorf("%v: servers %s, want %s", row.args, got, row.servers)
		}
	}
	for _, row := range []struct {
		args  []string
		words []string
	}{
		{[]string{"--profile=shop"}, []string{"profile:", "demo, orders"}},
		{[]string{"--strategies-enabled=nothing"}, []string{"strategies.enabled:", `unknown strategy "nothing"`}},
		{[]string{"--stores-enabled=oracle"}, []string{"stores.enabled:", `"oracle"`}},
		{[]string{"--stores-enabled=mysql"}, []string{"stores.enabled:", `has not "redis"`}},
		{[]string{"--profile=orders", "--strategies-enabled=pessimistic"}, []string{"pessimistic works on mysql"}},
		{[]string{"--orders-strategy=none"}, []string{"orders.strategy:", "no lock between machines"}},
		{[]string{"--orders-keep-keys=1s"}, []string{"orders.keep_keys:"}},
	} {
		_, err := configure(t, row.args...)
		says(t, err, row.words...)
	}
}

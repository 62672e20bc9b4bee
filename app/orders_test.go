package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
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
	mysql := func(t *testing.T) string { return "--mysql-dsn=" + migrated(t) }
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
			name := row.store + "-" + row.strategy + "-" + uuid.NewString()[:8]
			book, pen := "orders-"+name+"-book", "orders-"+name+"-pen"
			ann, eve := "ann-"+name, "eve-"+name // Redis is shared
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
			one := `{"customer":"` + eve + `","lines":[{"sku":"` + pen + `","quantity":1}]}`
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
		{[]string{"--profile=orders", "--relay-enabled"}, "", "redis", "redis"},
		// The stream is in Redis, whatever the lock of the relay is in.
		{
			[]string{"--profile=orders", "--store=mysql", "--relay-enabled", "--relay-lock=mysql-table"},
			"", "mysql", "redis mysql",
		},
		{
			[]string{
				"--profile=orders", "--store=mysql", "--relay-enabled", "--relay-lock=zk-sequential",
				"--relay-sink=webhook", "--relay-webhook-url=https://example.com",
				"--relay-webhook-secrets=whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD",
			},
			"", "mysql", "zookeeper mysql",
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
		case row.strategies == "all" && len(names) == 20, row.strategies == "all but pessimistic" && len(names) == 19:
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

// A store that comes back with an older copy of its data has the right origin, and lacks orders that customers were
// told of: no instance sells from it until a person has set the stock.
func TestALedgerComesBackAsAnOlderCopy(t *testing.T) {
	t.Parallel()
	for _, kind := range []stack.Kind{stack.Redis, stack.MySQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := stacktest.Server(t, kind)
			args := backends("--mysql-dsn=" + server.URL)
			if kind == stack.Redis {
				args = backends("--redis-addrs="+server.Addr, "--redis-timeout=5s")
			}
			args = append(args, "--profile=orders", "--store="+string(kind))
			a, b := begin(t, args...), begin(t, args...)
			a.ready(t, string(kind))
			b.ready(t, string(kind))
			order := `{"customer":"ann","lines":[{"sku":"book","quantity":1}]}`
			nightly := func(i *instance, status int) reply {
				t.Helper()
				r, _ := i.call(t, http.MethodPut, "/v1/stock/book", `{"quantity":10}`, "nightly")
				if r.status != status {
					t.Errorf("the nightly job: %d %s, want %d", r.status, r.body, status)
				}
				return r
			}
			nightly(a, 200)
			b.wants(t, 200, http.MethodPut, "/v1/stock/pen", `{"quantity":10}`)
			a.wants(t, 201, http.MethodPost, "/v1/orders", order)
			var restore func()
			if kind == stack.MySQL {
				restore = emptyData(t, server)
				a.ready(t, string(kind))
			} else {
				if err := redisAt(t, server).Save(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				restore = func() {
					if err := errors.Join(server.Kill(), server.Restart(t.Context())); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 3 {
				a.wants(t, 201, http.MethodPost, "/v1/orders", order)
			}
			restore()
			for _, i := range []*instance{a, b} {
				stacktest.Eventually(t, 30*time.Second, "the older copy is noticed", func() (bool, string) {
					r := i.ask(http.MethodGet, "/readyz")
					return strings.Contains(r.body, string(kind)+" has lost its data"), r.body
				})
				r := i.wants(t, 503, http.MethodPost, "/v1/orders", order)
				if r.field("type") != "/problems/data_lost" {
					t.Errorf("%s", r.body)
				}
			}
			const missing = "gone back to an older copy: at least 3 movements of book"
			if log := a.log.String(); !strings.Contains(log, missing) {
				t.Errorf("the log does not tell what is missing:\n%s", log)
			}
			// A job that repeats what it set before the loss is no person who decides.
			for _, i := range []*instance{a, b} {
				if r := nightly(i, 503); r.field("type") != "/problems/data_lost" {
					t.Errorf("%s", r.body)
				}
				i.wants(t, 503, http.MethodPost, "/v1/orders", strings.Replace(order, ":1}", ":9}", 1))
			}
			// A person goes on with what is there, whichever instance has noticed.
			b.wants(t, 200, http.MethodPut, "/v1/stock/book", `{"quantity":5}`)
			for _, i := range []*instance{a, b, a} {
				i.ready(t, string(kind))
				i.wants(t, 201, http.MethodPost, "/v1/orders", order)
			}
			a.looks(t, string(kind))
			if got := a.counts(t, "book"); got != "6 2 0 4" {
				t.Errorf("after a person has set the stock: %s", got)
			}
			nightly(a, 200) // what it has set before is answered again
			if got := a.counts(t, "book"); got != "6 2 0 4" {
				t.Errorf("after a replay: %s", got)
			}
		})
	}
}

// A store that came back empty sells no cart, confirms nothing, and does not say that an order is not there, until a
// person has set the stock.
func TestALedgerComesBackEmpty(t *testing.T) {
	t.Parallel()
	for _, kind := range []stack.Kind{stack.Redis, stack.MySQL} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			var server *stack.Server
			var args []string
			lose := func() {
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := server.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if server = stacktest.Server(t, kind); kind == stack.Redis {
				args = backends("--redis-addrs="+server.Addr, "--redis-timeout=5s")
			} else {
				args = backends("--mysql-dsn=" + server.URL)
				lose = emptyData(t, server)
			}
			i := begin(t, append(args, "--profile=orders", "--store="+string(kind))...)
			i.ready(t, string(kind))
			cart := `{"customer":"ann","lines":[{"sku":"book","quantity":2}]`
			i.wants(t, 200, http.MethodPut, "/v1/stock/book", `{"quantity":10}`)
			bought := i.wants(t, 201, http.MethodPost, "/v1/orders", cart+"}")
			order := fmt.Sprint("/v1/orders/", bought.field("order_id"))
			held := i.wants(t, 201, http.MethodPost, "/v1/reservations", cart+`,"ttl":"1h"}`)
			confirm := fmt.Sprint("/v1/reservations/", held.field("reservation_id"), "/confirm?customer=ann")
			lose()
			stacktest.Eventually(t, 30*time.Second, "the loss is noticed", func() (bool, string) {
				r := i.ask(http.MethodGet, "/readyz")
				return strings.Contains(r.body, string(kind)+" has lost its data"), r.body
			})
			for _, call := range [][3]string{
				{http.MethodPost, "/v1/orders", cart + "}"},
				{http.MethodPost, "/v1/reservations", cart + `,"ttl":"1h"}`},
				{http.MethodPost, confirm, ""},
				{http.MethodPost, "/v1/stock/book/adjustments", `{"delta":5}`},
				{http.MethodGet, order + "?customer=ann", ""},
				{http.MethodGet, "/v1/orders?customer=ann", ""},
				{http.MethodGet, "/v1/stock/book", ""},
				{http.MethodGet, "/v1/stock/book/movements", ""},
			} {
				r := i.wants(t, 503, call[0], call[1], call[2])
				if r.field("type") != "/problems/data_lost" {
					t.Errorf("%s %s: %s", call[0], call[1], r.body)
				}
			}
			i.wants(t, 200, http.MethodPut, "/v1/stock/book", `{"quantity":3}`)
			i.wants(t, 201, http.MethodPost, "/v1/orders", cart+"}")
			if got := i.counts(t, "book"); got != "3 1 0 2" {
				t.Errorf("after the loss: %s", got)
			}
			i.wants(t, 404, http.MethodPost, confirm, "")
		})
	}
}

// The limits of reservations are the settings, in profile orders only.
func TestReservationsAreLimitedInProfileOrders(t *testing.T) {
	t.Parallel()
	limits := []string{
		"--redis-addrs=" + servers.Redis(t).Addr, "--reservations-open=2", "--reservations-units=9",
		"--reservations-share=50", "--reservations-extend-every=1h",
	}
	demo := begin(t, backends(limits...)...)
	shop := begin(t, backends(append(limits, "--profile=orders")...)...)
	for _, i := range []*instance{demo, shop} {
		i.ready(t, "redis")
		name := uuid.NewString()
		i.wants(t, 200, http.MethodPut, "/v1/stock/"+name, `{"quantity":21}`)
		reserve := func(customer string, units int, of string) (path string) {
			t.Helper()
			cart := fmt.Sprintf(`{"customer":%q,"ttl":"1h","lines":[{"sku":%q,"quantity":%d}]}`, customer, name, units)
			if i == demo || of == "" {
				r := i.wants(t, 201, http.MethodPost, "/v1/reservations", cart)
				return fmt.Sprint("/v1/reservations/", r.field("reservation_id"))
			}
			r := i.wants(t, 409, http.MethodPost, "/v1/reservations", cart)
			if r.field("type") != "/problems/too_many_reservations" || r.field("of") != of {
				t.Errorf("%s", r.body)
			}
			return ""
		}
		ann, bob := "ann-"+name, "bob-"+name
		path := reserve(ann, 1, "")
		reserve(ann, 9, "units")
		reserve(ann, 1, "")
		reserve(ann, 1, "open")
		reserve(bob, 9, "share")
		extend := func(status int, ttl string) {
			t.Helper()
			i.wants(t, status, http.MethodPost, path+"/extend", fmt.Sprintf(`{"customer":%q,"ttl":%q}`, ann, ttl))
		}
		extend(200, "2h")
		if i == shop {
			extend(429, "3h")
		}
		extend(200, "1h") // changes nothing
	}
}

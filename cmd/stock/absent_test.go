package main

import (
	"database/sql"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What is not configured makes its strategies unavailable, with the reason; all others work.
func TestAbsentBackends(t *testing.T) {
	for _, row := range []struct {
		name    string
		with    func(t *testing.T) string // a flag
		works   map[string]string         // endpoint and store
		reasons map[string]string         // of what does not work, by endpoint
		ready   int
	}{
		{
			"redis only", func(t *testing.T) string { return "--redis-addrs=" + servers.Redis(t).Addr },
			map[string]string{"/deduct_stock_redisson": "redis", "/deduct_stock_atomic": "redis", "/deduct_stock_sync": "redis"},
			map[string]string{
				"/deduct_stock_zk":          "zookeeper is down: it is not configured: set zookeeper.hosts (STOCK_ZOOKEEPER_HOSTS)",
				"/deduct_stock_pessimistic": "mysql is down: it is not configured: set mysql.dsn (STOCK_MYSQL_DSN)",
			},
			200,
		},
		{
			"mysql only", func(t *testing.T) string { return "--mysql-dsn=" + servers.MariaDB(t) },
			map[string]string{"/deduct_stock_pessimistic": "mysql", "/deduct_stock_sync": "mysql"},
			map[string]string{
				"/deduct_stock_redisson": "redis is down: it is not configured: set redis.addrs (STOCK_REDIS_ADDRS)",
				"/deduct_stock_lock":     "redis is down: it is not configured: set redis.addrs (STOCK_REDIS_ADDRS)",
				"/deduct_stock_zk":       "zookeeper is down: it is not configured: set zookeeper.hosts (STOCK_ZOOKEEPER_HOSTS)",
			},
			200,
		},
		{
			"nothing", func(*testing.T) string { return "--zookeeper-hosts=" }, nil,
			map[string]string{
				"/deduct_stock":    "is down: it is not configured",
				"/deduct_stock_zk": "zookeeper is down: it is not configured: set zookeeper.hosts (STOCK_ZOOKEEPER_HOSTS)",
			},
			503,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			i := begin(t, backends(row.with(t), "--seed-sku="+own(t))...)
			eventually(t, 30*time.Second, "what is there is up", func() (bool, string) {
				r := i.ask(http.MethodGet, "/readyz")
				return r.status == row.ready, r.body
			})
			if row.ready != 200 {
				if r := i.ask(http.MethodGet, "/readyz"); r.field("status") != "no strategy is available" {
					t.Errorf("/readyz says %s", r.body)
				}
			}
			var catalogue struct {
				Strategies []struct {
					Endpoint, Reason string
					Available        bool
				}
			}
			if err := json.Unmarshal([]byte(i.must(t, http.MethodGet, "/v1/strategies", 200).body), &catalogue); err != nil {
				t.Fatal(err)
			}
			for _, s := range catalogue.Strategies {
				if store, works := row.works[s.Endpoint]; works {
					i.must(t, http.MethodPut, "/v1/stock/"+own(t)+"?quantity=10&store="+store, 200)
					i.must(t, http.MethodPost, s.Endpoint+"?store="+store, 200)
					if !s.Available || s.Reason != "" {
						t.Errorf("%s: available %t, because %q", s.Endpoint, s.Available, s.Reason)
					}
				}
				if reason, told := row.reasons[s.Endpoint]; told {
					if s.Available || !strings.Contains(s.Reason, reason) {
						t.Errorf("%s: available %t, because %q; want %q", s.Endpoint, s.Available, s.Reason, reason)
					}
					r := i.must(t, http.MethodPost, s.Endpoint, 503)
					detail, _ := r.field("detail").(string)
					if r.field("type") != "/problems/backend_down" || !strings.Contains(detail, reason) {
						t.Errorf("POST %s: %s, want backend_down because %q", s.Endpoint, r.body, reason)
					}
				}
			}
			i.must(t, http.MethodGet, "/livez", 200)
			i.end(t)
		})
	}
}

// Another instance is migrating, or hangs while it does: this one lives, sells what it can, and stops when it is told to.
func TestServeWhileAnotherMigrates(t *testing.T) {
	dsn := servers.MariaDB(t)
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var got int
	if err := conn.QueryRowContext(t.Context(), "SELECT GET_LOCK(CONCAT('stock.migrate.', MD5(DATABASE())), 0)").Scan(&got); err != nil || got != 1 {
		t.Fatalf("%d, %v", got, err)
	}
	i := begin(t, backends("--redis-addrs="+servers.Redis(t).Addr, "--mysql-dsn="+dsn, "--seed-sku="+own(t))...)
	alive := i.later(http.MethodGet, "/livez")
	select {
	case r := <-alive:
		if r.status != 200 {
			t.Errorf("/livez: %d %s %v", r.status, r.body, r.err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("/livez does not answer while the schema is not there yet")
	}
	// It is not seeded before MySQL has said what it remembers; a person need not wait for that.
	eventually(t, 20*time.Second, "the stock is set", func() (bool, string) {
		r := i.ask(http.MethodPut, "/v1/stock/"+own(t)+"?quantity=100&store=redis")
		return r.status == http.StatusOK, r.body
	})
	i.ready(t, "redis")
	i.must(t, http.MethodPost, "/deduct_stock_redisson", 200)
	i.must(t, http.MethodPost, "/deduct_stock_pessimistic", 503)
	i.cancel()
	select {
	case err := <-i.ended:
		i.ended <- err
	case <-time.After(30 * time.Second):
		t.Error("it waits for the other before it stops")
	}
}

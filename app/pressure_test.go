package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/stock/app/health"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// neverDown returns a check that fails if the instance has called that backend down since.
func (i *instance) neverDown(t *testing.T, backend string) (check func()) {
	t.Helper()
	before := i.down(backend)
	return func() {
		t.Helper()
		if after := i.down(backend); after != before {
			t.Errorf("%s was called down %d times", backend, after-before)
		}
	}
}

// down counts how often the instance has called that backend down.
func (i *instance) down(backend string) int {
	return strings.Count(i.log.String(), `msg="backend is down" backend=`+backend)
}

// tally counts the answers to requests in flight, by the name of the problem.
func tally(answers []<-chan reply) map[string]int {
	seen := make(map[string]int)
	for _, answer := range answers {
		seen[name(<-answer)]++
	}
	return seen
}

// name returns the key that counts a reply: "200", the name of the problem, or the error.
func name(r reply) string {
	switch {
	case r.err != nil:
		return r.err.Error()
	case r.status == http.StatusOK:
		return "200"
	}
	return strings.TrimPrefix(fmt.Sprint(r.field("type")), "/problems/")
}

// metric returns a value of /metrics.
func (i *instance) metric(series string) string {
	for line := range strings.Lines(i.send(http.MethodGet, i.admin+"/metrics").body) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(value)
		}
	}
	return "missing"
}

// A server that stands still is reported as such, also while many requests wait for it. When it is back, all goes on.
func standstill(t *testing.T, lone *breakable) {
	for store, backend := range map[string]*server.Server{"redis": lone.redis, "mysql": lone.mysql} {
		t.Run(store, func(t *testing.T) {
			endpoint := "/deduct_stock_atomic?sku=still&store=" + store
			i := beginWithin(t, health.Timeout, backends(
				"--redis-url=redis://"+lone.redis.Addr, "--mysql-dsn="+lone.dsn,
				"--redis-timeout=1s", "--work=2s")...)
			i.ready(t, store)
			i.must(t, http.MethodPut, "/v1/stock/still?quantity=100000&store="+store, 200)
			i.must(t, http.MethodPost, endpoint, 200)
			if err := backend.Pause(); err != nil {
				t.Fatal(err)
			}
			var waits []<-chan reply
			for range 200 {
				waits = append(waits, i.later(http.MethodPost, endpoint))
			}
			servertest.Eventually(t, time.Minute, "/readyz names the server that is down", func() (bool, string) {
				r := i.ask(http.MethodGet, "/readyz")
				return strings.Contains(r.body, store+" is down"), r.body
			})
			seen := tally(waits)
			for what := range seen {
				if what != "backend_down" && what != "outcome_unknown" && what != "overloaded" {
					t.Errorf("%d were answered %s", seen[what], what)
				}
			}
			if err := backend.Resume(); err != nil {
				t.Fatal(err)
			}
			servertest.Eventually(t, time.Minute, "sales go on", func() (bool, string) {
				r := i.ask(http.MethodPost, endpoint)
				return r.status == http.StatusOK, r.body
			})
		})
	}
}

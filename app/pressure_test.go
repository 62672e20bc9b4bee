package app

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/app/health"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// lockedRow locks the row of sku from outside the service, until free is called.
func lockedRow(t *testing.T, dsn, sku string) (free func()) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(context.Background(), nil)
	if err == nil {
		var quantity int64
		err = tx.QueryRow("SELECT quantity FROM stock WHERE sku = ? FOR UPDATE", sku).Scan(&quantity)
	}
	if err != nil {
		t.Fatal(err)
	}
	free = sync.OnceFunc(func() {
		_ = tx.Rollback()
		_ = db.Close()
	})
	t.Cleanup(free)
	return free
}

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

// Thirty requests wait for one row. With the default pool, MySQL stays up on that instance, other SKUs and strategies
// sell, and the waits end as promised.
func TestWaitersForOneRowDisturbNobody(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	dsn := migrated(t)
	i := begin(t, backends("--redis-url=redis://"+servers.Redis(t).Addr, "--mysql-dsn="+dsn)...)
	i.ready(t, "redis", "mysql")
	for _, sku := range []string{"held", "a", "b", "c"} {
		i.must(t, http.MethodPut, "/v1/stock/"+sku+"?store=mysql&quantity=1000", 200)
	}
	i.must(t, http.MethodPost, "/deduct_stock_pessimistic?sku=held", 200)
	up := i.neverDown(t, "mysql")
	for _, row := range []struct {
		wait string
		ends string
	}{{"4s", "lock_timeout"}, {"50s", "200"}} {
		t.Run(row.ends, func(t *testing.T) {
			free := lockedRow(t, dsn, "held")
			var waits []<-chan reply
			for range 30 {
				waits = append(waits, i.later(http.MethodPost, "/deduct_stock_pessimistic?sku=held&wait="+row.wait))
			}
			for range 20 {
				i.must(t, http.MethodPost, "/deduct_stock_pessimistic?sku=a", 200)
				i.must(t, http.MethodPost, "/deduct_stock_atomic?store=mysql&sku=b", 200)
				i.must(t, http.MethodPost, "/deduct_stock_redisson?store=mysql&sku=c", 200)
				i.must(t, http.MethodGet, "/v1/stock/held?store=mysql", 200)
				if t.Failed() {
					break
				}
			}
			i.looks(t, "mysql") // while all of them wait
			if r := i.ask(http.MethodPost, "/deduct_stock_pessimistic?sku=held&wait=0s"); name(r) != "lock_busy" {
				t.Errorf("who does not wait got %d %s %v, want lock_busy", r.status, r.body, r.err)
			}
			if row.ends == "200" {
				free()
			}
			if seen := tally(waits); seen[row.ends] != 30 {
				t.Errorf("the waits ended as %v, want 30 %s", seen, row.ends)
			}
		})
	}
	up()
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

// Clients beyond the capacity of the store are told so, and never that it is down. Every admitted request is served.
func TestFloodIsNoOutage(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	clients, lasts := servertest.Rounds(1500, 300), time.Duration(servertest.Rounds(8, 2))*time.Second
	for _, store := range []string{"redis", "mysql"} {
		t.Run(store, func(t *testing.T) {
			// Clients, service and servers share a computer that may be short of processors: limits that mean another's
			// fault are long.
			i := begin(t, backends("--redis-url=redis://"+servers.Redis(t).Addr, "--mysql-dsn="+migrated(t),
				"--log-level=warn", "--redis-timeout=10s", "--work=10s")...)
			i.ready(t, "redis", "mysql")
			// A probe of the store, or a connection whose request is not read for 5 s, may be the victim of another
			// program that takes the processors. A flood that is an outage is one each time.
			for try := 1; ; try++ {
				err := i.floodIsNoOutage(t, fmt.Sprint(own(t), "-", try), store, clients, lasts)
				if err == nil {
					return
				}
				if t.Log(err); try == 3 {
					t.Fatal("three floods of three were an outage")
				}
			}
		})
	}
}

// floodIsNoOutage returns what was wrong in a flood.
func (i *instance) floodIsNoOutage(t *testing.T, sku, store string, clients int, lasts time.Duration) (err error) {
	t.Helper()
	wrong := func(format string, args ...any) { err = errors.Join(err, fmt.Errorf(format, args...)) }
	i.must(t, http.MethodPut, "/v1/stock/"+sku+"?store="+store+"&quantity=1000000", 200)
	const overloaded = `stock_deductions_total{outcome="overloaded",strategy="atomic"}`
	before, _ := strconv.Atoi(i.metric(overloaded))
	down := i.down(store)
	seen := flood(t, i.url+"/deduct_stock_atomic?store="+store+"&sku="+sku, clients, lasts)
	t.Log(seen)
	sold, refused := seen["200"], seen["overloaded"]
	delete(seen, "200")
	delete(seen, "overloaded")
	if len(seen) > 0 {
		wrong("besides 200 and overloaded: %v", seen)
	}
	if refused > 0 && i.metric(overloaded) != strconv.Itoa(before+refused) {
		wrong("overloaded is not counted apart")
	}
	if sold == 0 {
		wrong("nobody was served")
	}
	if n := i.down(store) - down; n > 0 {
		wrong("%s was called down %d times", store, n)
	}
	// Nothing is left of the flood: the next one is served, and what was sold is what was said.
	i.must(t, http.MethodPost, "/deduct_stock_atomic?store="+store+"&sku="+sku, 200)
	r := i.must(t, http.MethodGet, "/v1/stock/"+sku+"?store="+store, 200)
	if got := r.field("sold"); got != float64(sold+1) {
		wrong("sold %v, and %d were told so", got, sold+1)
	}
	return err
}

// flood starts that many clients for d and counts the answers. Each client sends its next request after the reply, or
// after the pause that the reply asks for.
func flood(t *testing.T, url string, clients int, d time.Duration) map[string]int {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	seen := make(map[string]int)
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(d)
	for n := range clients {
		all.Go(func() {
			time.Sleep(time.Duration(n) * 2 * time.Millisecond) // connecting all at once would be another test
			for time.Now().Before(end) {
				var r reply
				resp, err := client.Post(url, "", http.NoBody)
				if err != nil {
					r.err = err
				} else {
					body, err := io.ReadAll(resp.Body)
					resp.Body.Close()
					r = reply{resp.StatusCode, string(body), err}
					if after, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil {
						time.Sleep(time.Duration(after) * time.Second)
					}
				}
				mu.Lock()
				seen[name(r)]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return seen
}

// A server that stands still is reported as such, also while many requests wait for it. When it is back, all goes on.
func TestStandstillUnderPressure(t *testing.T) {
	for _, row := range []struct {
		kind     server.Kind
		flag     string
		endpoint string
	}{
		{server.Redis, "--redis-url=redis://", "/deduct_stock_atomic?store=redis&sku=stock"},
		{server.MySQL, "--mysql-dsn=", "/deduct_stock_atomic?store=mysql&sku=stock"},
	} {
		t.Run(string(row.kind), func(t *testing.T) {
			t.Parallel()
			backend := servertest.Server(t, row.kind)
			address := backend.Addr
			if row.kind == server.MySQL {
				address = backend.URL
			}
			i := beginWithin(t, health.Timeout,
				backends(row.flag+address, "--seed-quantity=100000", "--redis-timeout=1s", "--work=2s")...)
			i.ready(t, string(row.kind))
			i.must(t, http.MethodPost, row.endpoint, 200)
			if err := backend.Pause(); err != nil {
				t.Fatal(err)
			}
			var waits []<-chan reply
			for range 200 {
				waits = append(waits, i.later(http.MethodPost, row.endpoint))
			}
			servertest.Eventually(
				t,
				time.Minute,
				"/readyz names the server that is down",
				func() (bool, string) {
					r := i.ask(http.MethodGet, "/readyz")
					return strings.Contains(r.body, string(row.kind)+" is down"), r.body
				},
			)
			seen := tally(waits)
			t.Log(seen)
			for what := range seen {
				if what != "backend_down" && what != "outcome_unknown" && what != "overloaded" {
					t.Errorf("%d were answered %s", seen[what], what)
				}
			}
			if err := backend.Resume(); err != nil {
				t.Fatal(err)
			}
			servertest.Eventually(t, time.Minute, "sales go on", func() (bool, string) {
				r := i.ask(http.MethodPost, row.endpoint)
				return r.status == http.StatusOK, r.body
			})
		})
	}
}

// What /readyz says of one backend.
func backendOf(r reply, name string) (told struct {
	Up      bool
	Reason  string
	Warning string
},
) {
	var all struct {
		Backends map[string]json.RawMessage
	}
	_ = json.Unmarshal([]byte(r.body), &all)
	_ = json.Unmarshal(all.Backends[name], &told)
	return told
}

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// A server stops or hangs in the middle of a load: requests are answered within 3 s, the instances stay up, nothing is
// lost, and all works again within 10 s of its return.
//
// Each server has a cluster of its own, in which its outages follow one another.
func TestBackendsGoAndComeBack(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	type sale struct{ strategy, store string }
	for _, row := range []struct {
		server string
		want   []server.Kind
		sales  []sale
	}{
		{"redis", []server.Kind{server.Redis, server.MySQL}, []sale{
			{"redis-watchdog", "mysql"}, // the lock's server
			{"atomic", "redis"},         // the store
		}},
		{"mysql", []server.Kind{server.Redis, server.MySQL}, []sale{{"redis-watchdog", "mysql"}, {
			"pessimistic",
			"mysql",
		}}},
		{"zookeeper", []server.Kind{server.Redis, server.ZooKeeper}, []sale{{"zk-sequential", "redis"}}},
	} {
		t.Run(row.server, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t, 2, row.want...)
			for _, s := range servertest.Some(1, row.sales) {
				for _, hangs := range servertest.Some(1, []bool{row.server != "mysql", row.server == "mysql"}) {
					how := map[bool]string{false: "is killed under ", true: "hangs under "}[hangs]
					t.Run(how+s.strategy, func(t *testing.T) {
						outage(t, c, c.Server(row.server), hangs, s.strategy, s.store)
					})
				}
			}
		})
	}
}

func outage(t *testing.T, c *group, server *server.Server, hangs bool, strategy, store string) {
	harm, mend := server.Kill, func() error { return server.Restart(t.Context()) }
	if hangs {
		harm, mend = server.Pause, server.Resume
	}
	client := c.client(t, 10)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var done sync.WaitGroup
	var result *loadtest.Result
	var failed error
	seen, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	done.Go(func() {
		defer close(ended)
		result, failed = runLoad(ctx, client, loadtest.Plan{
			Recheck:  new(time.Duration),
			Strategy: strategy, Store: store, Stock: 1_000_000, Requests: 1_000_000, Concurrency: 10,
		}, func(p loadtest.Progress) {
			if p.Outcomes[loadtest.Accepted] > 20 {
				once.Do(func() { close(seen) })
			}
		})
	})
	select {
	case <-seen:
	case <-ended:
		t.Fatalf("the load ended before the harm: %v", failed)
	}
	if err := harm(); err != nil {
		t.Fatal(err)
	}
	for _, app := range c.apps {
		servertest.Eventually(t, time.Minute, "/readyz names the server that is down", func() (bool, string) {
			_, body := get(t, app.URL+"/readyz")
			return strings.Contains(body, server.Name+" is down"), body
		})
	}
	for _, app := range c.apps {
		if status, body := get(t, app.URL+"/livez"); status != http.StatusOK {
			t.Errorf("%s does not live: %d %s", app.Name, status, body)
		}
	}
	sale := loadtest.Request{
		Endpoint: endpoint(t, client, strategy), Store: store, SKU: "load-" + strategy, Quantity: 1,
	}
	// More than once: on a busy computer, nginx may reach no instance within its second.
	servertest.Eventually(t, time.Minute, "sales are told backend_down", func() (bool, string) {
		reply := client.Deduct(ctx, sale)
		if reply.Problem == "bad_gateway" || reply.Status == 0 {
			return false, reply.Problem + " " + reply.Error
		}
		if reply.Problem != "backend_down" {
			t.Errorf("problem %q, want backend_down (%s)", reply.Problem, reply.Error)
		}
		return true, ""
	})
	if err := mend(); err != nil {
		t.Fatal(err)
	}
	servertest.Eventually(t, time.Minute, "sales go on after the server's return", func() (bool, string) {
		reply := client.Deduct(ctx, sale)
		return reply.Outcome == loadtest.Accepted, reply.Problem + " " + reply.Error
	})
	for _, app := range c.apps { // or who is asked for the orders at last may not have seen the return
		servertest.Eventually(t, time.Minute, "/readyz names the server no more", func() (bool, string) {
			_, body := get(t, app.URL+"/readyz")
			return !strings.Contains(body, server.Name+" is down"), body
		})
	}
	stop()
	done.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	judge(t, result)
}

// runLoad is loadtest.Run. A run that cannot begin is tried again: on a busy computer a probe may be late, and the
// first request be told that a server is down.
func runLoad(
	ctx context.Context, c *loadtest.Client, p loadtest.Plan, progress func(loadtest.Progress),
) (result *loadtest.Result, err error) {
	for range 20 {
		result, err = loadtest.Run(ctx, c, p, progress)
		if result != nil || loadtest.Sleep(ctx, time.Second) != nil {
			break
		}
	}
	return result, err
}

// judge checks that no update was lost, whatever happened. The extra sales of the test itself are foreign orders.
func judge(t *testing.T, r *loadtest.Result) {
	t.Helper()
	v := &r.Verdict
	t.Logf(
		"%d sent, %d accepted, %d failed, %d unknown, %d recovered: %s", v.Sent, v.Accepted, v.Failed,
		v.Unknown, v.Recovered, v.Sentence,
	)
	if v.Collisions > 0 || v.Phantoms > 0 || v.Denied > 0 || v.LostUnits != 0 {
		t.Errorf(
			"collisions %d, phantoms %d, denied %d, lost %d: %v", v.Collisions, v.Phantoms, v.Denied,
			v.LostUnits, v.Reasons,
		)
	}
}

func endpoint(t *testing.T, client *loadtest.Client, strategy string) string {
	t.Helper()
	catalogue, err := client.Strategies(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s, err := loadtest.Find(catalogue, strategy)
	if err != nil {
		t.Fatal(err)
	}
	return s.Endpoint
}

// An instance that is stopped under load finishes its requests: no client gets an error, and nothing is lost.
func TestGracefulStopUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	for _, strategy := range servertest.Some(1, []string{"redis-watchdog", "zk-sequential", "pessimistic"}) {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			c := cluster.serve(t, 3)
			result, stopped := disturbed(t, c, strategy, func() {
				if err := c.apps[0].Stop(); err != nil {
					t.Error(err)
				}
			})
			judge(t, result)
			v := &result.Verdict
			// The end of the run cuts off what a busy computer has not done two seconds later. That says nothing of the
			// instance that had stopped before the request was sent.
			result.Records = slices.DeleteFunc(result.Records, func(r loadtest.Record) bool {
				return strings.Contains(r.Error, "the run was interrupted") && r.SentAt.After(stopped)
			})
			if why := firstError(result); why != "" || v.Recovered > 0 {
				t.Errorf("%d failed, %d unknown, %d recovered: %s", v.Failed, v.Unknown, v.Recovered, why)
			}
		})
	}
}

// An instance that is killed under load loses only its own requests: its sales stand, and its locks become free.
func TestInstanceKilledUnderLoad(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	for _, strategy := range servertest.Some(1, []string{"redis-watchdog", "zk-sequential", "pessimistic"}) {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			c := cluster.serve(t, 3, "STOCK_LOCK_WATCHDOG_LEASE=2s")
			result, _ := disturbed(t, c, strategy, func() {
				if err := c.apps[0].Kill(); err != nil {
					t.Error(err)
				}
			})
			judge(t, result)
		})
	}
}

// disturbed runs a load during which something happens. It returns the result and the time at which happens returned;
// at least two hundred more were sold after that.
func disturbed(t *testing.T, c *group, strategy string, happens func()) (result *loadtest.Result, happened time.Time) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var sold atomic.Int64
	var done sync.WaitGroup
	var failed error
	done.Go(func() {
		result, failed = runLoad(ctx, c.client(t, 12), loadtest.Plan{
			Recheck:  new(time.Duration),
			Strategy: strategy, Store: "mysql", Stock: 1_000_000, Requests: 1_000_000, Concurrency: 12,
			SKU: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), // the servers are shared
		}, func(p loadtest.Progress) { sold.Store(int64(p.Outcomes[loadtest.Accepted])) })
	})
	reach := func(n int64) {
		t.Helper()
		servertest.Eventually(t, 5*time.Minute, "sales go on", func() (bool, string) {
			return sold.Load() >= n, strconv.FormatInt(sold.Load(), 10)
		})
	}
	reach(50)
	happens()
	happened = time.Now()
	reach(sold.Load() + 200)
	stop()
	done.Wait()
	if failed != nil {
		t.Fatal(failed)
	}
	return result, happened
}

// An instance that finds no server at all starts, says so, and works when the servers come.
func TestStartWithoutBackends(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	c := startCluster(t, 1, demoServers()...)
	app := c.apps[0]
	for _, name := range []string{"redis", "mysql", "zookeeper"} {
		if err := c.Server(name).Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Stop(); err != nil {
		t.Fatal(err)
	}
	started := make(chan error, 1)
	go func() { started <- app.Restart(t.Context()) }()
	servertest.Eventually(t, 20*time.Second, "the instance says what is missing", func() (bool, string) {
		status, body := get(t, app.URL+"/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "redis is down") &&
			strings.Contains(body, "mysql is down") && strings.Contains(body, "zookeeper is down"), body
	})
	for _, name := range []string{"redis", "mysql", "zookeeper"} {
		if err := c.Server(name).Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	servertest.Eventually(t, time.Minute, "every strategy is available", func() (bool, string) {
		status, body := get(t, app.URL+"/v1/strategies")
		return status == http.StatusOK && !strings.Contains(body, `"available":false`) &&
			!strings.Contains(body, "is down"), body
	})
	if err := <-started; err != nil {
		t.Error(err)
	}
}

// post posts to a URL without a body, and decodes the reply.
func post(t *testing.T, url string, into any) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", url, err, body)
	}
	return resp.StatusCode
}

// If Redis stops in the middle of a sale, the outcome is unknown. A client that follows the reply, through the proxy,
// learns whether the sale was made. The answer stays the same, and matches the list of orders at the end.
func TestOutcomeUnknownIsSettled(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	c := startCluster(t, 1, server.Redis)
	sale := c.front.URL + "/deduct_stock_atomic?store=redis"
	var first struct{ Quantity int }
	if status := post(t, sale, &first); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	if err := c.Server("redis").Pause(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	paths := make(map[string]string) // by order id
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			var problem struct {
				Type    string
				Settle  string
				OrderID string `json:"order_id"`
			}
			post(t, sale, &problem)
			mu.Lock()
			defer mu.Unlock()
			if problem.Type == "/problems/outcome_unknown" {
				paths[problem.OrderID] = problem.Settle
			}
		})
	}
	all.Wait()
	if err := c.Server("redis").Resume(); err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("no outcome is unknown: this proves nothing")
	}
	written := 0
	for id, path := range paths {
		var said [2]struct {
			OrderID string `json:"order_id"`
			State   string
			Final   bool
		}
		for i := range said {
			servertest.Eventually(t, time.Minute, "it is decided", func() (bool, string) {
				status := post(t, c.front.URL+path, &said[i])
				return status == http.StatusOK, http.StatusText(status)
			})
		}
		if said[0] != said[1] || said[0].OrderID != id || !said[0].Final {
			t.Errorf("order %s: %+v, and then %+v", id, said[0], said[1])
		}
		_, orders := get(t, c.front.URL+"/v1/stock/stock/orders?store=redis&limit=1000")
		if there := strings.Contains(orders, id); there != (said[0].State == "written") {
			t.Errorf("order %s is %s, and in the list: %v", id, said[0].State, there)
		} else if there {
			written++
		}
	}
	t.Logf("%d unknown, %d of them written", len(paths), written)
}

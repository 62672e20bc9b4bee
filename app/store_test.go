package app

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/locktest/servertest"
)

// A till counts what instances sell of one SKU with the strategy atomic.
type till struct {
	sku, store string
	accepted   atomic.Int64
}

// sell sends n requests to each instance, all at once, and returns the types of the problems, each once.
func (b *till) sell(n int, from ...*instance) map[string]bool {
	var done sync.WaitGroup
	var mu sync.Mutex
	problems := make(map[string]bool)
	for _, i := range from {
		done.Go(func() {
			for range n {
				r := i.insist(http.MethodPost, b.deduct())
				if r.status == http.StatusOK {
					b.accepted.Add(1)
					continue
				}
				mu.Lock()
				problems[fmt.Sprint(r.field("type"))] = true
				mu.Unlock()
			}
		})
	}
	done.Wait()
	return problems
}

// lost waits until the instances report that the store has lost its data, while b sells from them.
func (b *till) lost(t *testing.T, from ...*instance) {
	t.Helper()
	for _, i := range from {
		servertest.Eventually(
			t,
			30*time.Second,
			"/readyz says that "+b.store+" has lost its data",
			func() (bool, string) {
				for _, seller := range from {
					if r := seller.ask(http.MethodPost, b.deduct()); r.status == http.StatusOK {
						b.accepted.Add(1)
					}
				}
				r := i.ask(http.MethodGet, "/readyz")
				return strings.Contains(r.body, b.store+" has lost its data"), r.body
			},
		)
	}
}

// is checks what was sold, and what the store says.
func (b *till) is(t *testing.T, i *instance, accepted int64, left float64) {
	t.Helper()
	if got := b.accepted.Load(); got != accepted {
		t.Errorf("%d accepted, want %d", got, accepted)
	}
	if r := i.must(t, http.MethodGet, b.path(), 200); r.field("quantity") != left {
		t.Errorf("the stock is %s, want %v left", r.body, left)
	}
}

func (b *till) deduct() string { return "/deduct_stock_atomic?sku=" + b.sku + "&store=" + b.store }

func (b *till) path() string { return "/v1/stock/" + b.sku + "?store=" + b.store }

// refused checks that every request but setting the stock is refused, with helpful words.
func (b *till) refused(t *testing.T, instances ...*instance) {
	t.Helper()
	for _, i := range instances {
		if problems := b.sell(20, i); len(problems) != 1 || !problems["/problems/data_lost"] {
			t.Errorf("problems %v, want data_lost alone", problems)
		}
		for _, path := range []string{b.path(), "/v1/stock/" + b.sku + "/orders?store=" + b.store} {
			r := i.must(t, http.MethodGet, path, 503) // that an order is not there would mean nothing
			detail := fmt.Sprint(r.field("detail"))
			if r.field("type") != "/problems/data_lost" || !strings.Contains(detail, "PUT /v1/stock/{sku}") {
				t.Errorf("GET %s: %s", path, r.body)
			}
		}
		if r := i.send(http.MethodGet, i.admin+"/metrics"); !strings.Contains(
			r.body, `stock_store_data_lost{store="`+b.store+`"} 1`,
		) {
			t.Error("there is no metric of it")
		}
		if log := i.log.String(); strings.Count(log, "store has lost its data") != 1 {
			t.Errorf("it is not in the log, or more than once:\n%s", log)
		}
	}
}

// 100 of 100 are sold, and Redis comes back empty: nothing is sold until a person sets the stock, and then on all
// instances at once.
func TestRedisComesBackEmpty(t *testing.T) {
	t.Parallel()
	url, db := emptyRedis(t, 1)
	args := backends(url, "--redis-timeout=5s")
	a, b := begin(t, args...), begin(t, args...)
	a.ready(t, "redis")
	b.ready(t, "redis")
	x := &till{sku: "stock", store: "redis"}
	x.sell(60, a, b)
	x.is(t, a, 100, 0)
	if err := db.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	x.lost(t, a, b)
	x.refused(t, a, b)
	// One that starts now remembers nothing of its own.
	c := begin(t, args...)
	x.lost(t, c)
	x.refused(t, c)
	if got := x.accepted.Load(); got != 100 {
		t.Fatalf("%d accepted of 100", got)
	}
	a.must(t, http.MethodPut, x.path()+"&quantity=5", 200)
	x.accepted.Store(0)
	if problems := x.sell(4, b, c); len(problems) != 1 || !problems["/problems/sold_out"] {
		t.Errorf("problems %v after the stock was set, want sold_out alone", problems)
	}
	x.is(t, a, 5, 0)
	for _, i := range []*instance{a, b, c} {
		i.ready(t, "redis")
	}
}

// Three instances that start at the same moment on empty stores agree on one origin, and seed each store once.
func TestFirstStartSeedsOnce(t *testing.T) {
	t.Parallel()
	empty := servers.MariaDB(t) // without a schema
	url, _ := emptyRedis(t, 2)
	args := backends(url, "--redis-timeout=5s", "--mysql-dsn="+empty)
	var all []*instance
	for range 3 {
		all = append(all, begin(t, args...))
	}
	for _, i := range all {
		i.ready(t, "redis", "mysql")
	}
	for _, store := range []string{"redis", "mysql"} {
		x := &till{sku: "stock", store: store}
		x.sell(40, all...)
		x.is(t, all[0], 100, 0)
		if r := all[1].must(t, http.MethodGet, x.path(), 200); r.field("version") != 101.0 {
			t.Errorf("%s, want version 101, as after one seeding and 100 sales", r.body)
		}
	}
}

// A person sets the stock of an empty Redis before any probe has noticed the loss: that is as good as after.
func TestSetBeforeTheLossIsNoticed(t *testing.T) {
	t.Parallel()
	url, db := emptyRedis(t, 5)
	args := backends(url, "--redis-timeout=5s")
	a, b := begin(t, args...), begin(t, args...)
	a.ready(t, "redis")
	b.ready(t, "redis")
	x := &till{sku: "stock", store: "redis"}
	for range 2 {
		if err := db.FlushDB(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		a.must(t, http.MethodPut, x.path()+"&quantity=5", 200)
		x.accepted.Store(0)
		x.sell(4, a, b)
		x.is(t, b, 5, 0)
		b.looks(t, "redis") // it was not asked to set it
		a.ready(t, "redis")
		b.ready(t, "redis")
		if r := b.must(t, http.MethodPost, "/deduct_stock_atomic", 409); r.field("type") != "/problems/sold_out" {
			t.Errorf("%s, want sold_out", r.body)
		}
	}
}

// emptyRedis is the flag of an empty database of the shared Redis, for this test alone, and a client of it.
func emptyRedis(t *testing.T, n int) (flag string, db *redis.Client) {
	t.Helper()
	addr := servers.Redis(t).Addr
	db = redis.NewClient(&redis.Options{Addr: addr, DB: n})
	t.Cleanup(func() { _ = db.Close() })
	return fmt.Sprintf("--redis-url=redis://%s?db=%d", addr, n), db
}

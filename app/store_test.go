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
		servertest.Eventually(t, 30*time.Second, b.store+" has lost its data", func() (bool, string) {
			for _, seller := range from {
				if r := seller.ask(http.MethodPost, b.deduct()); r.status == http.StatusOK {
					b.accepted.Add(1)
				}
			}
			r := i.ask(http.MethodGet, "/readyz")
			return strings.Contains(r.body, b.store+" has lost its data"), r.body
		})
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
	addr := servers.Redis(t).Addr
	db := redis.NewClient(&redis.Options{Addr: addr, DB: 1}) // for this test alone
	defer db.Close()
	args := backends("--redis-url=redis://"+addr+"?db=1", "--redis-timeout=5s")
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

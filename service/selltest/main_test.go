// Package selltest sells on real stores and under real locks. It has the tests of package service that need a server
// or a driver, so that those beside service need neither.
package selltest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"example.com/stock/app/health"
	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// What these tests use of repotest. Each has SKUs of its own in the database that all share.
var (
	servers  = &repotest.Servers
	mysqlDSN = repotest.SharedMySQL
	orm      = repotest.OpenMySQL
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints every connection that is refused
	goleak.VerifyTestMain(servers.Around(m))
}

type shop = service.Shop

// dial opens a Redis client as the service does.
func dial(t testing.TB, addr string) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, DialTimeout: 5 * time.Second, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func redisStore(t testing.TB) *stock.Redis {
	return stock.NewRedis(repo.NewRedis(dial(t, servers.Redis(t).Addr)))
}

func mysqlStore(t testing.TB) *stock.MySQL { return stock.NewMySQL(repo.NewMySQL(orm(t, mysqlDSN(t)))) }

// switched is a dependency that is up until the test says otherwise.
type switched struct {
	*health.Backend
	down error
}

func newSwitched(t testing.TB, name string) *switched {
	t.Helper()
	s := &switched{}
	s.Backend = health.New(name, func(context.Context) error { return s.down })
	s.turn(t, nil)
	return s
}

func (s *switched) turn(t testing.TB, down error) {
	t.Helper()
	s.down = down
	if now, _ := s.Probe(context.Background()); !errors.Is(now, down) {
		t.Fatalf("the backend is %v, want %v", now, down)
	}
}

// A scene is a service with one strategy, "it", on one store, "here", with 10 units of the SKU "sku".
type scene struct {
	*service.Service
	store   shop
	sku     service.SKU
	serving *switched // what the strategy needs
	keeping *switched // what the store needs

	mu       sync.Mutex
	watchers []service.Watcher // guarded by mu
}

// Tell implements service.Watcher.
func (s *scene) Tell(step service.Step) {
	s.mu.Lock()
	watchers := slices.Clone(s.watchers)
	s.mu.Unlock()
	for _, w := range watchers {
		w.Tell(step)
	}
}

// told lets a watcher have the steps of all sales of the scene, from the sale of this request on.
func (s *scene) told(w service.Watcher) func(*service.Request) {
	return func(*service.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.watchers = append(s.watchers, w)
	}
}

const initial = 10

// stage sets a scene up. Times are long, so that no test passes by a bound that it does not mean.
func stage(t testing.TB, seller service.Seller, store shop, change ...func(*service.Config)) *scene {
	t.Helper()
	s := &scene{
		store:   store,
		sku:     service.SKU(digest(t.Name())),
		serving: newSwitched(t, "lock"),
		keeping: newSwitched(t, "store"),
	}
	c := service.Config{
		Instance:     "app-1",
		DefaultStore: "here",
		Wait:         time.Minute,
		Work:         20 * time.Second,
		Watch:        s,
		Strategies: map[string]service.StrategyConfig{
			"it": {Seller: seller, Blocking: true, Needs: []service.Dependency{s.serving}},
		},
		Stores: map[string]service.StoreConfig{"here": {Store: store, Needs: s.keeping, Data: service.Trusted{}}},
	}
	for _, f := range change {
		f(&c)
	}
	s.Service = service.New(c)
	insist(t, func() error { return second(s.SetStock(t.Context(), "here", s.sku, initial)) })
	return s
}

// SetStock sets the stock, whatever it is.
func (s *scene) SetStock(
	ctx context.Context, store string, sku service.SKU, quantity int64,
) (service.Stock, error) {
	return s.SetStockIf(ctx, store, sku, quantity, service.Condition{})
}

// insist does what may be done again until Work is long enough for it, which it may not be on a busy computer.
func insist(t testing.TB, do func() error) {
	t.Helper()
	late := func(err error) bool {
		return errors.Is(err, service.ErrOutcomeUnknown) || errors.Is(err, lock.ErrOverloaded)
	}
	err := do()
	for tries := 1; late(err) && tries < 100; tries++ {
		err = do()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// digest makes an SKU of a test's name.
func digest(name string) string {
	out := make([]byte, 0, service.MaxSKU)
	for i := max(0, len(name)-service.MaxSKU); i < len(name); i++ {
		if c := name[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			out = append(out, c)
		} else {
			out = append(out, '-')
		}
	}
	return string(out)
}

// sell is a deduction of one unit.
func (s *scene) sell(ctx context.Context, change ...func(*service.Request)) (service.Receipt, error) {
	req := service.Request{Strategy: "it", SKU: s.sku, Quantity: 1, RequestID: "r-1"}
	for _, f := range change {
		f(&req)
	}
	return s.Deduct(ctx, req)
}

func wait(d time.Duration) func(*service.Request) {
	return func(r *service.Request) { r.Wait = &d }
}

func lab(l service.Lab) func(*service.Request) {
	return func(r *service.Request) { r.Lab = l }
}

// sold fails unless the stock says that n orders of one unit were written and no update was lost.
func (s *scene) sold(t testing.TB, n int64) {
	t.Helper()
	s.left(t, initial-n, n)
}

// left fails unless the stock has that quantity left, and as many orders of one unit as were sold.
func (s *scene) left(t testing.TB, quantity, sold int64) {
	t.Helper()
	var stock service.Stock
	insist(t, func() (err error) { stock, err = s.Stock(context.Background(), "", s.sku); return err })
	if stock.Quantity != quantity || stock.Sold != sold {
		t.Errorf("%d left and %d sold, want %d and %d", stock.Quantity, stock.Sold, quantity, sold)
	}
	var page service.Page
	insist(t, func() (err error) {
		page, err = s.Orders(context.Background(), "", s.sku, "", service.MaxPage)
		return err
	})
	if int64(len(page.Orders)) != sold {
		t.Errorf("%d orders, want %d", len(page.Orders), sold)
	}
}

// fails is the failed sale's error, which must match all of wanted and none of unwanted.
func fails(t testing.TB, err error, wanted []error, unwanted ...error) {
	t.Helper()
	for _, want := range wanted {
		if !errors.Is(err, want) {
			t.Errorf("err = %v, want one that matches %v", err, want)
		}
	}
	for _, no := range unwanted {
		if errors.Is(err, no) {
			t.Errorf("err = %v, want one that does not match %v", err, no)
		}
	}
}

func all(list ...error) []error { return list }

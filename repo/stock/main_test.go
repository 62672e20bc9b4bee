package stock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"gorm.io/gorm"

	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints each refused connection
	repotest.Main(m)
}

// What tests of this package use of repotest.
var (
	database  = repotest.Database
	migrated  = repotest.Migrated
	openMySQL = repotest.OpenMySQL
	short     = repotest.Short
)

// A shop has the interfaces that both stores implement.
type shop interface {
	service.Shop
	CanWrite(ctx context.Context) error
}

func onMySQL(db *gorm.DB) *stock.MySQL             { return stock.NewMySQL(repo.NewMySQL(db)) }
func onRedis(c redis.UniversalClient) *stock.Redis { return stock.NewRedis(repo.NewRedis(c)) }
func realMySQL(t *testing.T) shop                  { return onMySQL(openMySQL(t, database(t))) }
func realRedis(t *testing.T) shop                  { return onRedis(dialRedis(t, servertest.Redis(t).Addr)) }

// dialRedis returns a client with the options of the service.
func dialRedis(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: []string{addr}, ContextTimeoutEnabled: true,
		DialTimeout: 5 * time.Second, DialerRetries: 1, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A proxy is between a store and its server, and breaks requests on demand.
type proxy struct{ *wire.Proxy }

func newProxy(t testing.TB, server string, p wire.Protocol) proxy {
	t.Helper()
	listening, err := wire.Listen(server, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listening.Close() })
	return proxy{listening}
}

// proxied is a store behind a proxy, and the same store without it.
func proxied(t testing.TB, name string) (p proxy, broken, sound shop) {
	t.Helper()
	if name == "redis" {
		addr := repotest.Servers.Redis(t).Addr
		p = newProxy(t, addr, wire.Redis())
		// The client has go-redis' default of three retries, which must make no difference.
		return p, onRedis(dialRedis(t, p.Addr())), onRedis(dialRedis(t, addr))
	}
	dsn := repotest.SharedMySQL(t)
	_, rest, _ := strings.Cut(dsn, "(")
	addr, _, _ := strings.Cut(rest, ")")
	p = newProxy(t, addr, wire.MySQL())
	return p, onMySQL(openMySQL(t, strings.Replace(dsn, addr, p.Addr(), 1))), onMySQL(openMySQL(t, dsn))
}

var skus atomic.Int64

// newSKU returns a SKU that no other test uses.
func newSKU(name string) service.SKU { return service.SKU(fmt.Sprintf("%s-%d", name, skus.Add(1))) }

// stockKey returns the key of a SKU's stock in Redis.
func stockKey(sku service.SKU) string { return "stock:{" + string(sku) + "}" }

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// order returns the order of a sale of one unit that has read stock.
func order(stock service.Stock) service.Order {
	return service.Order{
		ID: newID(), SKU: stock.SKU, Quantity: 1, Read: stock.Quantity, Remaining: stock.Quantity - 1,
		Version: stock.Version, Epoch: stock.Epoch, Strategy: "none", Instance: "app-1", RequestID: "r-1",
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
}

func mustSet(t testing.TB, s shop, sku service.SKU, quantity int64) service.Stock {
	t.Helper()
	stock, err := s.Set(short(t), sku, quantity, service.Condition{})
	if err != nil {
		t.Fatalf("Set(%s, %d): %v", sku, quantity, err)
	}
	return stock
}

func mustRead(t testing.TB, s shop, sku service.SKU) service.Stock {
	t.Helper()
	stock, err := s.Read(short(t), sku)
	if err != nil {
		t.Fatalf("Read(%s): %v", sku, err)
	}
	return stock
}

// want reads the stock of the SKU, and checks that it equals stock.
func want(t *testing.T, s shop, stock service.Stock) {
	t.Helper()
	if got := mustRead(t, s, stock.SKU); got != stock {
		t.Errorf("read  %+v\nwant  %+v", got, stock)
	}
}

// allOrders reads every page, of two orders each.
func allOrders(t testing.TB, s shop, sku service.SKU) []service.Order {
	t.Helper()
	var all []service.Order
	for from := ""; ; {
		page, next, err := s.Orders(short(t), sku, from, 2)
		if err != nil {
			t.Fatalf("Orders(%s, %q): %v", sku, from, err)
		}
		all = append(all, page...)
		if next == "" {
			return all
		}
		from = next
	}
}

// balanced wants that many orders, and stock that fits them.
func balanced(t *testing.T, s shop, sku service.SKU, orders int) {
	t.Helper()
	var sum int64
	all := allOrders(t, s, sku)
	for _, o := range all {
		sum += o.Quantity
	}
	stock := mustRead(t, s, sku)
	if len(all) != orders || stock.Sold != sum || stock.Quantity+sum != stock.Initial {
		t.Errorf("%d orders of %d units in all, want %d orders; %+v", len(all), sum, orders, stock)
	}
}

// ways are the writes of a store, each of an order.
func ways(s shop) map[string]func(context.Context, service.Order) error {
	all := map[string]func(context.Context, service.Order) error{
		"Write": s.Write, "Swap": s.Swap,
		"Deduct": func(ctx context.Context, o service.Order) error { _, err := s.Deduct(ctx, o); return err },
		"Batch": func(ctx context.Context, o service.Order) error {
			results, err := s.Batch(ctx, []service.Order{o})
			if err == nil {
				err = results[0].Err
			}
			return err
		},
	}
	if m, is := s.(*stock.MySQL); is {
		all["Transact"] = func(ctx context.Context, o service.Order) error {
			return m.Transact(ctx, o.SKU, false, func(ctx context.Context, tx service.Store) error {
				if _, err := tx.Read(ctx, o.SKU); err != nil {
					return err
				}
				err := tx.Write(ctx, o)
				if errors.Is(err, service.ErrSettled) || errors.Is(err, service.ErrKeyTaken) {
					return nil // swallowed: the deduction must not be written without its order
				}
				return err
			})
		}
	}
	return all
}

// statementsRun waits until n statements that match the LIKE pattern are running.
func statementsRun(t *testing.T, dsn, like string, n int) {
	t.Helper()
	watch := openMySQL(t, dsn)
	servertest.Eventually(t, repotest.Patience, fmt.Sprint(n, " statements like ", like), func() (bool, string) {
		var now int
		err := watch.Raw("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE()"+
			" AND INFO LIKE ? AND ID <> CONNECTION_ID()", like).Scan(&now).Error
		return now == n, fmt.Sprint(now, " run, ", err)
	})
}

package repo_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/repo"
	"example.com/stock/service"
)

var servers stacktest.Shared

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints every connection that is refused
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // tests wait for servers: more than one for each core
		panic(err)
	}
	goleak.VerifyTestMain(servers.Around(m))
}

var (
	sharedMu  sync.Mutex
	sharedDSN string
	skus      atomic.Int64
)

// sharedMySQL returns the DSN of a migrated database that tests share. Each uses SKUs of its own, see newSKU.
func sharedMySQL(t testing.TB) string {
	t.Helper()
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if sharedDSN == "" {
		sharedDSN = database(t)
	}
	return sharedDSN
}

// newSKU returns a SKU that no other test uses.
func newSKU(name string) service.SKU { return service.SKU(fmt.Sprintf("%s-%d", name, skus.Add(1))) }

// A shop is the interfaces that both stores implement.
type shop interface {
	service.Store
	service.Deductor
	service.Batcher
	service.Segmenter
	service.Inventory
	service.Replayer
}

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

func realRedis(t testing.TB) shop {
	return repo.NewRedis(dialRedis(t, stacktest.Redis(t).Addr))
}

func miniRedis(t testing.TB) shop { return repo.NewRedis(dialRedis(t, miniAddr(t))) }

func miniAddr(t testing.TB) string {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.Addr()
}

// openMySQL opens dsn. It does not touch the schema.
func openMySQL(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	db, err := repo.OpenMySQL(dsn, repo.Pool{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pool, err := db.DB(); err == nil {
			_ = pool.Close()
		}
	})
	return db
}

// migrated opens dsn and brings its schema up.
func migrated(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	db := openMySQL(t, dsn)
	m, err := repo.NewMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// database returns the DSN of a database with the schema, which is the test's own.
func database(t testing.TB) string {
	t.Helper()
	return servers.FilledMariaDB(t, func(t testing.TB, dsn string) { migrated(t, dsn) })
}

func realMySQL(t testing.TB) shop { return repo.NewMySQL(openMySQL(t, database(t))) }

// order returns an order of one unit by a sale that has read stock.
func order(stock service.Stock) service.Order {
	return service.Order{
		ID: uuid.NewString(), SKU: stock.SKU, Quantity: 1, Read: stock.Quantity, Remaining: stock.Quantity - 1,
		Version: stock.Version, Epoch: stock.Epoch, Strategy: "none", Instance: "app-1", RequestID: "r-1",
		CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
}

// patience is how long a test waits for what must come, on a computer that has other work.
const patience = time.Minute

// short returns a ctx for one operation.
func short(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// contextOf returns a ctx for one operation that ends after limit.
func contextOf(t testing.TB, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), limit)
}

func mustSet(t testing.TB, s shop, sku service.SKU, quantity int64) service.Stock {
	t.Helper()
	stock, err := s.Set(short(t), sku, quantity)
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

// A proxy stands between a store and its server and breaks what it is told to.
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

// once makes the proxy do that to the next request which contains word.
func (p proxy) once(do wire.Action, word string) {
	p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains(word), Do: do})
}

// count returns the number of requests during op. Clients here wait for each answer before they send the next request.
func (p proxy) count(op func()) int {
	before := p.Count(wire.ToServer)
	op()
	return p.Count(wire.ToServer) - before
}

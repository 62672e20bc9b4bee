// Package repotest opens stores for tests.
package repotest

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"
	"gorm.io/gorm"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// Servers are shared by the tests of a package.
var Servers stacktest.Shared

// Main runs the tests of a package. Its TestMain calls it.
func Main(m *testing.M) {
	logging.Disable() // go-redis prints every connection that is refused
	flag.Parse()
	if err := flag.Set("test.parallel", "6"); err != nil { // tests wait for servers: more than one for each core
		panic(err)
	}
	goleak.VerifyTestMain(Servers.Around(m))
}

var (
	sharedMu  sync.Mutex
	sharedDSN string
	skus      atomic.Int64
)

// SharedMySQL returns the DSN of a migrated database that tests share. Each uses SKUs of its own, see NewSKU.
func SharedMySQL(t testing.TB) string {
	t.Helper()
	sharedMu.Lock()
	defer sharedMu.Unlock()
	if sharedDSN == "" {
		sharedDSN = Database(t)
	}
	return sharedDSN
}

// NewSKU returns a SKU that no other test uses.
func NewSKU(name string) service.SKU { return service.SKU(fmt.Sprintf("%s-%d", name, skus.Add(1))) }

// DialRedis returns a client with the options of the service.
func DialRedis(t testing.TB, addr string) redis.UniversalClient {
	t.Helper()
	c := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: []string{addr}, ContextTimeoutEnabled: true,
		DialTimeout: 5 * time.Second, DialerRetries: 1, ReadTimeout: 20 * time.Second, WriteTimeout: 20 * time.Second,
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// MiniAddr returns the address of a miniredis.
func MiniAddr(t testing.TB) string {
	t.Helper()
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server.Addr()
}

// OpenMySQL opens dsn. It does not touch the schema.
func OpenMySQL(t testing.TB, dsn string) *gorm.DB {
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

// Migrated opens dsn and brings its schema up.
func Migrated(t testing.TB, dsn string) *gorm.DB {
	t.Helper()
	db := OpenMySQL(t, dsn)
	m, err := repo.NewMigrator(db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return db
}

// Database returns the DSN of a database with the schema, which is the test's own.
func Database(t testing.TB) string {
	t.Helper()
	return Servers.FilledMariaDB(t, func(t testing.TB, dsn string) { Migrated(t, dsn) })
}

// Patience is how long a test waits for what must come, on a computer that has other work.
const Patience = time.Minute

// Short returns a ctx for one operation.
func Short(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), Patience)
	t.Cleanup(cancel)
	return ctx
}

// ContextOf returns a ctx for one operation that ends after limit.
func ContextOf(t testing.TB, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), limit)
}

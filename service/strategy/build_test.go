package strategy_test

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // for sql.Open
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/zklock"
	"example.com/stock/service"
	"example.com/stock/service/strategy"
)

// nobody returns an address on which nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// dead is servers of which none is up.
func dead(t *testing.T) strategy.Servers {
	t.Helper()
	client := func() *redis.Client {
		return redis.NewClient(
			&redis.Options{Addr: nobody(t), MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true},
		)
	}
	servers := strategy.Servers{
		Redis:   client(),
		Redlock: []*redis.Client{client(), client(), client()},
		Log:     slog.New(slog.DiscardHandler),
	}
	session, err := zklock.Dial(zklock.Config{Hosts: []string{nobody(t)}, ConnectTimeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("mysql", "u:p@tcp("+nobody(t)+")/none")
	if err != nil {
		t.Fatal(err)
	}
	servers.ZooKeeper, servers.MySQL = session, db
	t.Cleanup(func() {
		errs := []error{session.Close(), db.Close(), servers.Redis.Close()}
		for _, c := range servers.Redlock {
			errs = append(errs, c.Close())
		}
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
	})
	return servers
}

// noStore has the methods of every store, and panics when one is called: a seller that gets so far without the lock.
type noStore struct{ service.Shop }

// An instance starts before its servers: nothing is opened by Build, what is used says that the server is down, and
// the end leaves nothing.
func TestBuildWithServersDown(t *testing.T) {
	t.Parallel()
	for _, plain := range []bool{false, true} {
		servers := dead(t)
		servers.PlainLocks = plain
		for _, s := range strategy.All() {
			t.Run(s.Name, func(t *testing.T) {
				seller, closer := s.Build(servers, nil)
				if seller == nil || closer == nil {
					t.Fatalf("Build = %v, %v", seller != nil, closer != nil)
				}
				if len(s.Needs) > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					err := seller(ctx, noStore{}, &service.Sale{
						Order: service.Order{SKU: "sku", Quantity: 1}, TryOnce: true,
					})
					if !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld) {
						t.Errorf("err = %v, want ErrDown", err)
					}
				}
				if err := closer(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
	}
}

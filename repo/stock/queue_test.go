package stock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// overloaded wants an operation to be refused for our own load: no server is called down, and no outcome is unknown.
func overloaded(t *testing.T, what string, err error) {
	t.Helper()
	if !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, lock.ErrDown) ||
		errors.Is(err, service.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s: %v, want overloaded and nothing else", what, err)
	}
}

// All connections of the pool are in use: nothing was sent, and the server is not to blame.
func TestNoFreeConnectionIsOverload(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{
			Addr: repotest.Servers.Redis(t).Addr, ContextTimeoutEnabled: true, MaxRetries: -1,
			PoolSize: 1, PoolTimeout: 50 * time.Millisecond,
		})
		defer client.Close()
		s := onRedis(client)
		stock := mustSet(t, s, "crowded", 10)
		conn := client.Conn()
		if err := conn.Ping(t.Context()).Err(); err != nil { // it keeps the connection
			t.Fatal(err)
		}
		overloaded(t, "Write", s.Write(short(t), order(stock)))
		_, err := s.Read(short(t), "crowded")
		overloaded(t, "Read", err)
		if err = conn.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Write(short(t), order(stock)); err != nil {
			t.Error(err)
		}
	})
	t.Run("mysql", func(t *testing.T) {
		dsn := database(t)
		db, err := repo.OpenMySQL(dsn, repo.Pool{Open: 1})
		if err != nil {
			t.Fatal(err)
		}
		pool, err := db.DB()
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		s := onMySQL(db)
		stock := mustSet(t, s, "crowded", 10)
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		brief := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			t.Cleanup(cancel)
			return ctx
		}
		overloaded(t, "Write", s.Write(brief(), order(stock)))
		_, err = s.Read(brief(), "crowded")
		overloaded(t, "Read", err)
		_, err = s.Segments(brief(), "crowded")
		overloaded(t, "Segments", err)
		_, _, err = s.Orders(brief(), "crowded", "", 1)
		overloaded(t, "Orders", err)
		_ = conn.Close()
		if err := s.Write(short(t), order(stock)); err != nil {
			t.Error(err)
		}
	})
}

// The waiters for one row stand at the server with two connections. The others wait without one, each until its own
// time is over, and other rows and reads are served.
func TestWaitersForARowTakeTwoConnections(t *testing.T) {
	t.Parallel()
	db := openMySQL(t, database(t))
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	queue := repo.NewQueue(6, 100)
	s := stock.NewMySQL(repo.NewMySQL(db).Behind(queue))
	mustSet(t, s, "held", 100)
	mustSet(t, s, "free", 100)
	var all sync.WaitGroup
	holding(t, s, "held", func() {
		for i := range 30 {
			all.Go(func() {
				if err := s.Transact(short(t), "held", false, sellIn("held", fmt.Sprint("o", i), nil)); err != nil {
					t.Errorf("waiter %d: %v", i, err)
				}
			})
		}
		servertest.Eventually(t, repotest.Patience, "two are at the server", func() (bool, string) {
			in, waiting := queue.Load()
			return in == 2, fmt.Sprint(in, " are in, ", waiting, " wait")
		})
		if open := pool.Stats().InUse; open > 2 {
			t.Errorf("%d connections are in use, want 2", open)
		}
		if err := s.Transact(short(t), "held", true, sellIn("held", "x", nil)); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("one that tries once: %v, want ErrHeld", err)
		}
		late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := s.Transact(late, "held", false, sellIn("held", "y", nil))
		if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrOverloaded) {
			t.Errorf("a wait that is over: %v, want ErrHeld and DeadlineExceeded", err)
		}
		if err := s.Transact(short(t), "free", false, sellIn("free", "z", nil)); err != nil {
			t.Errorf("another row: %v", err)
		}
		other := service.Order{ID: "d", SKU: "free", Quantity: 1, Strategy: "none", CreatedAt: time.Now()}
		if _, err := s.Deduct(short(t), other); err != nil {
			t.Errorf("another way: %v", err)
		}
		mustRead(t, s, "held")
	})
	all.Wait()
	balanced(t, s, "held", 31)
	balanced(t, s, "free", 2)
}

// A queue that is full refuses at once, except for operations that have begun.
func TestAFullQueueRefuses(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"redis", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			q := repo.NewQueue(1, 1)
			var s shop
			if kind == "redis" {
				s = stock.NewRedis(repo.NewRedis(dialRedis(t, repotest.Servers.Redis(t).Addr)).Behind(q))
			} else {
				s = stock.NewMySQL(repo.NewMySQL(openMySQL(t, database(t))).Behind(q))
			}
			sku := service.SKU("full-" + kind)
			stock := mustSet(t, s, sku, 10)
			leave, err := q.Enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var waits sync.WaitGroup
			waits.Go(func() {
				if _, err := s.Read(short(t), sku); err != nil {
					t.Errorf("the one that waits: %v", err)
				}
			})
			waiting := func(n int) {
				servertest.Eventually(t, repotest.Patience, fmt.Sprint(n, " wait"), func() (bool, string) {
					_, now := q.Load()
					return now == n, fmt.Sprint(now)
				})
			}
			waiting(1)
			for what, op := range map[string]func() error{
				"Read":     func() error { _, err := s.Read(short(t), sku); return err },
				"Write":    func() error { return s.Write(short(t), order(stock)) },
				"Swap":     func() error { return s.Swap(short(t), order(stock)) },
				"Deduct":   func() error { _, err := s.Deduct(short(t), order(stock)); return err },
				"Set":      func() error { _, err := s.Set(short(t), sku, 5); return err },
				"Orders":   func() error { _, _, err := s.Orders(short(t), sku, "", 1); return err },
				"Segments": func() error { _, err := s.Segments(short(t), sku); return err },
			} {
				overloaded(t, what, op())
			}
			waits.Go(func() {
				if err := s.Write(service.Begin(short(t)), order(stock)); err != nil {
					t.Errorf("the one that has begun: %v", err)
				}
			})
			waiting(2)
			leave()
			waits.Wait()
			balanced(t, s, sku, 1)
		})
	}
}

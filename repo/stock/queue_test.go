package stock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/repo"
	"example.com/stock/repo/repotest"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// The waiters for one row stand at the server with two connections. The others wait without one, and other rows and
// reads are served.
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
		for name, write := range ways(s) {
			if err := write(short(t), order(mustRead(t, s, "free"))); err != nil {
				t.Errorf("%s, of another row: %v", name, err)
			}
		}
	})
	all.Wait()
	balanced(t, s, "held", 31)
}

// A queue that is full refuses at once, except for operations that have begun. No server is called down, and no outcome
// is unknown.
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
			at := operation{}.set(t, s)
			leave, err := q.Enter(t.Context(), "test")
			if err != nil {
				t.Fatal(err)
			}
			var waits sync.WaitGroup
			waits.Go(func() {
				if _, err := s.Read(short(t), at.sku); err != nil {
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
			for _, op := range operations(s) {
				// Of these a probe has connections of its own, a transaction has begun, and the move finds no segments.
				if slices.Contains([]string{"CanWrite", "Transact", "Refill"}, op.name) {
					continue
				}
				err := op.run(short(t), s, at)
				if !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, lock.ErrDown) ||
					errors.Is(err, service.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v, want overloaded and nothing else", op.name, err)
				}
			}
			waits.Go(func() {
				if err := s.Write(service.Begin(short(t)), at.order); err != nil {
					t.Errorf("the one that has begun: %v", err)
				}
			})
			waiting(2)
			leave()
			waits.Wait()
			balanced(t, s, at.sku, 1)
		})
	}
}

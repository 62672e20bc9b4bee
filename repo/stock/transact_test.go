package stock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gorm.io/gorm"

	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// sellIn returns a sale for Transact, like that of the strategy "pessimistic". It calls seen while the row is locked.
func sellIn(sku service.SKU, id string, seen func()) func(context.Context, service.Store) error {
	return func(ctx context.Context, tx service.Store) error {
		stock, err := tx.Read(ctx, sku)
		if err != nil {
			return err
		}
		if seen != nil {
			seen()
		}
		o := order(stock)
		o.ID = id
		return tx.Write(ctx, o)
	}
}

func transactor(t *testing.T) (*stock.MySQL, *gorm.DB) {
	db := openMySQL(t, database(t))
	return onMySQL(db), db
}

// holding runs while, with the row of sku locked by another transaction.
func holding(t *testing.T, s *stock.MySQL, sku service.SKU, while func()) {
	t.Helper()
	locked, done := make(chan struct{}), make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() {
		sell := sellIn(sku, "holder", func() { close(locked); <-done })
		if err := s.Transact(context.Background(), sku, false, sell); err != nil {
			t.Errorf("the holder: %v", err)
		}
	})
	<-locked
	while()
	close(done)
	holder.Wait()
}

func TestTransactHeld(t *testing.T) {
	t.Parallel()
	dsn := database(t)
	s := onMySQL(openMySQL(t, dsn))
	hasty := onMySQL(openMySQL(t, dsn+"?innodb_lock_wait_timeout=1"))
	mustSet(t, s, "sku", 100)
	fails := func(what string, err, target error) {
		t.Helper()
		if !errors.Is(err, target) || errors.Is(err, lock.ErrDown) {
			t.Errorf("%s: %v, want %v, and that nobody is down", what, err, target)
		}
	}
	holding(t, s, "sku", func() {
		try := sellIn("sku", "second", nil)
		fails("no wait", s.Transact(short(t), "sku", true, try), lock.ErrHeld)
		fails("lock wait timeout in the read", hasty.Transact(short(t), "sku", false, try), lock.ErrHeld)
		stock := mustRead(t, s, "sku") // locks nothing, and so does not wait
		fails("lock wait timeout in a write", hasty.Write(short(t), order(stock)), lock.ErrHeld)
		cause := errors.New("the client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(20*time.Millisecond, func() { cancel(cause) })
		defer timer.Stop()
		fails("cancelled wait", s.Transact(ctx, "sku", false, try), cause)
		// Long enough to be in the queue for the row by then: before that the wait is for the server.
		late, stop := context.WithTimeout(t.Context(), 3*time.Second)
		defer stop()
		fails("wait that is over", s.Transact(late, "sku", false, try), context.DeadlineExceeded)
		// A closure that goes on after a fault must not get anything written.
		fails("swallowed fault", s.Transact(short(t), "sku", true, func(ctx context.Context, tx service.Store) error {
			_, _ = tx.Read(ctx, "sku")
			_ = tx.Write(ctx, order(stock))
			return nil
		}), lock.ErrHeld)
	})
	balanced(t, s, "sku", 1)
}

func TestTransactLeavesNothing(t *testing.T) {
	t.Parallel()
	s, db := transactor(t)
	stock := mustSet(t, s, "sku", 100)
	changed := errors.New("I changed my mind")
	ctx, cancel := context.WithCancelCause(t.Context())
	for name, do := range map[string]func(context.Context, service.Store) error{
		"error": func(ctx context.Context, tx service.Store) error {
			return errors.Join(sellIn("sku", "a", nil)(ctx, tx), changed)
		},
		"ctx ends": func(ctx context.Context, tx service.Store) error {
			err := sellIn("sku", "b", nil)(ctx, tx)
			cancel(changed)
			return err
		},
	} {
		if err := s.Transact(ctx, "sku", false, do); !errors.Is(err, changed) {
			t.Errorf("%s: %v, want the cause", name, err)
		}
		ctx, cancel = context.WithCancelCause(t.Context())
	}
	cancel(nil)
	func() {
		defer func() { _ = recover() }()
		_ = s.Transact(t.Context(), "sku", false, func(ctx context.Context, tx service.Store) error {
			_ = sellIn("sku", "c", nil)(ctx, tx)
			panic("a bug")
		})
	}()
	// Whoever gets the connection next must not find our transaction open, nor the row locked.
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	if open := pool.Stats().InUse; open != 0 {
		t.Errorf("%d connections are still in use", open)
	}
	want(t, s, stock)
	balanced(t, s, "sku", 0)
	if err := s.Transact(short(t), "sku", false, sellIn("sku", "d", nil)); err != nil {
		t.Error(err)
	}
}

// Two carts with the same two SKUs, in opposite order: InnoDB ends one of the two, and it is run again, also if the
// closure does not pass the error on: after a deadlock there is no transaction left to commit.
func TestDeadlock(t *testing.T) {
	t.Parallel()
	for _, swallow := range []bool{false, true} {
		s, _ := transactor(t)
		mustSet(t, s, "a", 100)
		mustSet(t, s, "b", 100)
		var both, all sync.WaitGroup
		both.Add(2)
		var runs atomic.Int32
		for i, cart := range [][2]service.SKU{{"a", "b"}, {"b", "a"}} {
			all.Go(func() {
				met := sync.OnceFunc(func() { both.Done(); both.Wait() }) // only the first run waits for the other
				err := s.Transact(short(t), cart[0], false, func(ctx context.Context, tx service.Store) error {
					runs.Add(1)
					if err := sellIn(cart[0], fmt.Sprint(i, cart[0]), met)(ctx, tx); err != nil {
						return err
					}
					err := sellIn(cart[1], fmt.Sprint(i, cart[1]), nil)(ctx, tx)
					if swallow {
						return nil
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if runs.Load() < 3 {
			t.Errorf("%d runs: there was no deadlock, so this proves nothing", runs.Load())
		}
		balanced(t, s, "a", 2)
		balanced(t, s, "b", 2)
	}
}

// Who gives up waiting for the row is out of the server's queue at once, and not after innodb_lock_wait_timeout, 50 s,
// although the row is held all the time; also when all connections of the pool were waiting.
func TestTransactLeavesTheQueue(t *testing.T) {
	t.Parallel()
	const pool = 6
	dsn := database(t)
	holder := onMySQL(openMySQL(t, dsn))
	db, err := repo.OpenMySQL(dsn, repo.Pool{Open: pool})
	if err != nil {
		t.Fatal(err)
	}
	mine, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	mustSet(t, holder, "sku", 100)
	holding(t, holder, "sku", func() {
		cause := errors.New("the client went away")
		ctx, cancel := context.WithCancelCause(t.Context())
		var all sync.WaitGroup
		for i := range pool {
			all.Go(func() {
				// Two waiters of one store stand at the server: each has a store of its own.
				err := onMySQL(db).Transact(ctx, "sku", false, sellIn("sku", fmt.Sprint("o", i), nil))
				if !errors.Is(err, cause) || errors.Is(err, lock.ErrDown) {
					t.Errorf("%v, want the cause", err)
				}
			})
		}
		statementsRun(t, dsn, "SELECT%FOR UPDATE%", pool)
		cancel(cause)
		all.Wait()
		statementsRun(t, dsn, "SELECT%FOR UPDATE%", 0)
	})
	if err := onMySQL(db).Transact(short(t), "sku", false, sellIn("sku", "after", nil)); err != nil {
		t.Error(err)
	}
	balanced(t, holder, "sku", 2)
}

package selltest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/repo/stock"
	"example.com/stock/service"
)

// lockRow locks the row of s in a transaction of its own until free is called.
func lockRow(t *testing.T, db *stock.MySQL, s *scene) (free func()) {
	t.Helper()
	locked, leave, left := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(t.Context())
		left <- db.Transact(ctx, s.sku, false, func(ctx context.Context, tx service.Store) error {
			if _, err := tx.Read(ctx, s.sku); err != nil {
				return err
			}
			close(locked)
			<-leave
			return nil
		})
	}()
	var once sync.Once
	free = func() {
		once.Do(func() {
			close(leave)
			if err := <-left; err != nil {
				t.Error(err)
			}
		})
	}
	select {
	case <-locked:
	case err := <-left:
		t.Fatal(err)
	}
	t.Cleanup(free)
	return free
}

// A thinkingStore is MySQL with a test inside the transaction.
type thinkingStore struct {
	*stock.MySQL
	entering func()                      // before the row is asked for
	writing  func(context.Context) error // instead of the write, unless it returns nil
	reading  func(int) error             // an error takes the place of a Read's result; told the number of the attempt
	attempts int
}

type thinkingTx struct {
	service.Store
	*thinkingStore
}

func (th *thinkingStore) Transact(
	ctx context.Context,
	about service.SKU,
	once bool,
	do func(context.Context, service.Store) error,
) error {
	return th.MySQL.Transact(ctx, about, once, func(ctx context.Context, tx service.Store) error {
		th.attempts++
		if th.entering != nil {
			th.entering()
		}
		return do(ctx, thinkingTx{tx, th})
	})
}

func (th thinkingTx) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	if th.reading != nil {
		if err := th.reading(th.attempts); err != nil {
			return service.Stock{}, err
		}
	}
	return th.Store.Read(ctx, sku)
}

func (th thinkingTx) Write(ctx context.Context, o service.Order) error {
	if th.writing != nil {
		if err := th.writing(ctx); err != nil {
			return err
		}
	}
	return th.Store.Write(ctx, o)
}

func TestTransactionWaitsForTheRow(t *testing.T) {
	t.Parallel()
	db := &thinkingStore{MySQL: mysqlStore(t)}
	s := stage(t, service.InTransaction, db)
	free := lockRow(t, db.MySQL, s)
	var freed time.Time
	db.entering = func() {
		db.entering = nil
		go func() { freed = time.Now(); free() }()
	}
	r, err := s.sell(t.Context())
	if err != nil || r.AcquiredAt.Before(freed) {
		t.Errorf("got at %v, free at %v: %v", r.AcquiredAt, freed, err)
	}
	s.sold(t, 1)
}

func TestTransactionWaitIsBounded(t *testing.T) {
	t.Parallel()
	db := mysqlStore(t)
	s := stage(t, service.InTransaction, db)
	free := lockRow(t, db, s)
	late := time.AfterFunc(10*time.Second, free) // one that waits for ever is sold then
	defer late.Stop()
	_, err := s.sell(t.Context(), wait(2*time.Second))
	fails(t, err, all(lock.ErrHeld, context.DeadlineExceeded), lock.ErrDown)
	free()
	if _, err := s.sell(t.Context()); err != nil {
		t.Errorf("next: %v", err)
	}
	s.sold(t, 1)
}

func TestTransactionTriesOnce(t *testing.T) {
	t.Parallel()
	db := mysqlStore(t)
	s := stage(t, service.InTransaction, db)
	free := lockRow(t, db, s)
	_, err := s.sell(t.Context(), wait(0))
	fails(t, err, all(lock.ErrHeld), context.DeadlineExceeded, lock.ErrDown)
	free()
	if _, err := s.sell(t.Context(), wait(0)); err != nil {
		t.Errorf("next: %v", err)
	}
	s.sold(t, 1)
}

func TestTransactionIsLeftByItsClientAndItsServer(t *testing.T) {
	t.Parallel()
	gone := errors.New("the client closed the connection")
	down := &driver.DownError{Server: "store", Reason: "the test says so"}
	for name, row := range map[string]struct {
		ends func(s *scene, leave context.CancelCauseFunc)
		err  error
	}{
		"client gone": {func(_ *scene, leave context.CancelCauseFunc) { leave(gone) }, gone},
		"server down": {func(s *scene, _ context.CancelCauseFunc) { s.keeping.turn(t, down) }, lock.ErrDown},
	} {
		t.Run(name, func(t *testing.T) {
			db := &thinkingStore{MySQL: mysqlStore(t)}
			s := stage(t, service.InTransaction, db)
			free := lockRow(t, db.MySQL, s)
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			db.entering = func() {
				db.entering = nil
				go row.ends(s, leave)
			}
			_, err := s.sell(ctx)
			fails(t, err, all(lock.ErrHeld, row.err), context.DeadlineExceeded)
			free()
			s.keeping.turn(t, nil)
			if _, err := s.sell(t.Context()); err != nil {
				t.Errorf("next: %v", err)
			}
			s.sold(t, 1)
		})
	}
}

// The wait's end does not reach into the critical section.
func TestTransactionOutlivesTheWait(t *testing.T) {
	t.Parallel()
	db := mysqlStore(t)
	s := stage(t, service.InTransaction, db)
	r, err := s.sell(t.Context(), wait(5*time.Second), lab(service.Lab{Hold: 6 * time.Second}))
	if err != nil || r.Held < 6*time.Second {
		t.Errorf("held %v: %v", r.Held, err)
	}
	s.sold(t, 1)
}

// A transaction that hangs with the row locked is ended by the bound: nothing is written, and the row is free.
func TestTransactionWorkBound(t *testing.T) {
	t.Parallel()
	db := &thinkingStore{MySQL: mysqlStore(t)}
	s := stage(t, service.InTransaction, db, within(3*time.Second))
	db.writing = hangs
	_, err := s.sell(t.Context())
	fails(t, err, all(context.DeadlineExceeded), lock.ErrHeld)
	db.writing = nil
	if _, err := s.sell(t.Context(), wait(0)); err != nil {
		t.Errorf("next: %v", err)
	}
	s.sold(t, 1)
}

// What fails after the write, in the commit, was not sold.
func TestTransactionRolledBack(t *testing.T) {
	t.Parallel()
	db := &thinkingStore{MySQL: mysqlStore(t)}
	s := stage(t, service.InTransaction, db)
	broken := errors.New("the power went")
	s.Strategies["it"] = service.StrategyConfig{
		Seller: func(ctx context.Context, store service.Store, sale *service.Sale) error {
			return service.InTransaction(ctx, rolledBack{store, db.MySQL, broken}, sale)
		},
	}
	_, err := s.sell(t.Context(), wait(time.Minute))
	fails(t, err, all(broken))
	s.sold(t, 0)
}

// rolledBack fails at the last moment, when do is through.
type rolledBack struct {
	service.Store
	db  *stock.MySQL
	err error
}

func (u rolledBack) Transact(
	ctx context.Context,
	about service.SKU,
	once bool,
	do func(context.Context, service.Store) error,
) error {
	return u.db.Transact(ctx, about, once, func(ctx context.Context, tx service.Store) error {
		return errors.Join(do(ctx, tx), u.err)
	})
}

// A transaction that the server asks to run again, as after a deadlock, waits for the row no longer than the first
// time.
func TestTransactionRunAgainIsStillBoundByTheWait(t *testing.T) {
	t.Parallel()
	db := &thinkingStore{MySQL: mysqlStore(t)}
	s := stage(t, service.InTransaction, db)
	free := lockRow(t, db.MySQL, s)
	db.reading = func(attempt int) error {
		if attempt == 1 {
			return deadlock()
		}
		return nil
	}
	_, err := s.sell(t.Context(), wait(3*time.Second))
	fails(t, err, all(lock.ErrHeld, context.DeadlineExceeded))
	if db.attempts != 2 {
		t.Errorf("%d attempts, want 2: the test proves nothing", db.attempts)
	}
	free()
	s.sold(t, 0)
}

package stock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"gorm.io/gorm"

	"example.com/stock/internal/mysqlerr"
	"example.com/stock/lock"
	"example.com/stock/repo"
	"example.com/stock/repo/gate"
	"example.com/stock/service"
)

// Transact begins a transaction, runs do in it, and commits. InnoDB may end a transaction to resolve a deadlock. Then
// it is run again from the start, so do may be called more than once; what it did before is undone.
//
// If tryOnce is set and another transaction has locked the row, Transact fails with lock.ErrHeld. Otherwise it waits
// for the row. A waiter whose ctx ends also leaves the server's queue, which takes two round trips on another
// connection; see cancelWait. A wait that reaches innodb_lock_wait_timeout (50 s by default) ends with lock.ErrHeld.
//
// Behind gates at most PerKey transactions of this process wait at the server for the row of about, where PerKey is a
// limit of Gates.Transactions. The others wait for them, without a connection; to those with tryOnce the row is held.
func (m *MySQL) Transact(
	ctx context.Context, about service.SKU, tryOnce bool, do func(ctx context.Context, tx service.Store) error,
) error {
	const doing = "sell in transaction"
	leave, err := m.enterTransaction(ctx, doing, about, tryOnce)
	if err != nil {
		return err
	}
	waiting := ""
	err = m.Transaction(ctx, doing, func(tx *gorm.DB) error {
		store := &transaction{tx: tx, tryOnce: tryOnce}
		err := do(ctx, store)
		waiting = store.waiting
		if err != nil {
			return err
		}
		return store.broken
	})
	leave()
	if waiting != "" {
		m.cancelWait(ctx, waiting) // after leave: our connection has gone back, and it may be the last of the pool
	}
	return err
}

// enterTransaction waits for the gate of transactions, and then for that of all operations. The first wait is for the
// row, like the wait in the server: when it ends without success the error is ErrHeld, unless it was the budget of all
// transactions that had no room.
func (m *MySQL) enterTransaction(
	ctx context.Context, doing string, about service.SKU, tryOnce bool,
) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, repo.CtxEnded(ctx, doing)
	}
	if tryOnce && m.Gates().Transactions.Busy(string(about)) {
		return nil, fmt.Errorf("%s: row %w, by another of this process", doing, lock.ErrHeld)
	}
	asked := gate.Request{Key: string(about), Wait: service.WaitOf(ctx)}
	first, err := m.Gates().Transactions.Enter(ctx, asked)
	if refused, ok := errors.AsType[*gate.RefusedError](err); ok && refused.KeyBusy {
		return nil, fmt.Errorf("%s: row %w, by another of this process: %w",
			doing, lock.ErrHeld, context.DeadlineExceeded)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	second, err := repo.EnterGate(service.Begin(ctx), m.Gates().All, doing, repo.Writing(about, 0))
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}

// A transaction is the Store inside Transact.
type transaction struct {
	tx      *gorm.DB
	tryOnce bool // do not wait for the row
	// broken is the first fault, which ends the transaction. After a deadlock, say, the server has rolled back, and
	// each statement that followed would be committed at once and by itself. So none follows, even if do swallows the
	// error.
	broken  error
	waiting string // label of the statement that still waits at the server although its caller has left
}

// Read is one round trip and the wait for the row. The lock is on the row of the primary key alone.
func (t *transaction) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	const doing = "lock stock"
	label := waitLabel()
	locking := locked + " " + label
	if t.tryOnce {
		locking = locked + " NOWAIT"
	}
	var row stockRow
	err := t.do(ctx, doing, func(tx *gorm.DB) (err error) {
		row, err = selectRow(tx, sku, locking)
		if err == nil && row.segmented() {
			// While the row is locked no units move between segments. They can be sold from, and this shows how far
			// that has gone.
			err = row.addSegments(tx)
		}
		return err
	})
	if err != nil && mysqlerr.Number(err) == 0 && ctx.Err() != nil {
		t.waiting = label
		return service.Stock{}, repo.WaitEnded(ctx, doing)
	}
	return row.stock(), err
}

func (t *transaction) do(ctx context.Context, doing string, statements func(tx *gorm.DB) error) error {
	if t.broken != nil {
		return t.broken
	}
	err := statements(t.tx.WithContext(ctx))
	explained := repo.Explain(ctx, doing, err)
	// ErrSettled and ErrKeyTaken are answers and no faults, but the UPDATE before is done: it must not be committed
	// without an order.
	if repo.Fault(err) || errors.Is(err, service.ErrSettled) || errors.Is(err, service.ErrKeyTaken) {
		t.broken = explained
	}
	return explained
}

const (
	// cancelWaitTimeout bounds the attempt to take a waiter out of the server's queue.
	cancelWaitTimeout = 500 * time.Millisecond
	// cancelWaitTries is how often the waiting statement is looked for: it may still be on its way to the server.
	cancelWaitTries = 3
	cancelWaitPause = 10 * time.Millisecond
)

// waitLabel returns an SQL comment by which one waiting statement is found among all others: the server's list of
// connections shows the text of the current statement. It costs only its bytes.
func waitLabel() string { return fmt.Sprintf("/* stock waits %016x */", rand.Uint64()) }

// cancelWait ends, from another connection, the wait of a caller that has given up. The server notices that the caller
// has gone only when it is about to give it the row. Until then, innodb_lock_wait_timeout at most, the waiter would
// cost a connection and a thread.
//
// It takes two round trips if the statement is found at once. Ending connections of one's own user needs no privilege.
// Where it fails, nothing else is lost: the row goes to the next waiter when the server finds nobody there.
func (m *MySQL) cancelWait(ctx context.Context, label string) {
	pool, err := m.Pool()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelWaitTimeout)
	defer cancel()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return
	}
	defer conn.Close()
	for range cancelWaitTries {
		var id int64
		err := conn.QueryRowContext(ctx, "SELECT ID FROM information_schema.PROCESSLIST"+
			" WHERE ID <> CONNECTION_ID() AND INFO LIKE ?", "%"+label).Scan(&id)
		if err == nil {
			_, _ = conn.ExecContext(ctx, "KILL CONNECTION "+strconv.FormatInt(id, 10))
			return
		}
		if lock.Sleep(ctx, cancelWaitPause) != nil {
			return
		}
	}
}

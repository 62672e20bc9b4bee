package stock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"gorm.io/gorm"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
	"example.com/stock/repo"
	"example.com/stock/service"
)

// Transact begins a transaction, calls do in it, and commits. If InnoDB rolls the transaction back to resolve a
// deadlock, Transact runs it again, so do may be called more than once.
//
// If another transaction has locked the row, Transact waits, or fails with lock.ErrHeld if tryOnce is set. If ctx
// ends meanwhile, Transact also removes the waiter from the server's queue, which takes two round trips on another
// connection: see cancelWait. After innodb_lock_wait_timeout (50 s by default) it fails with lock.ErrHeld.
//
// At most two transactions of this process hold the row of about or wait for it at the server. Others wait in this
// process, without a connection, or fail with lock.ErrHeld if tryOnce is set.
func (m *MySQL) Transact(
	ctx context.Context, about service.SKU, tryOnce bool, do func(ctx context.Context, tx service.Store) error,
) error {
	const doing = "sell in transaction"
	waiting := ""
	err := m.TransactionOn(ctx, doing, about, tryOnce, func(tx *gorm.DB) error {
		store := &transaction{tx: tx, tryOnce: tryOnce}
		err := do(ctx, store)
		waiting = store.waiting
		if err != nil {
			return err
		}
		return store.broken
	})
	if waiting != "" {
		m.cancelWait(ctx, waiting) // now, because it needs a connection, and ours may have been the last of the pool
	}
	return err
}

// A transaction is the Store inside Transact.
type transaction struct {
	tx      *gorm.DB
	tryOnce bool // do not wait for the row
	// broken is the first fault. No statement is sent after it, even if do swallows the error: after a deadlock, for
	// example, the server has rolled back, and would commit each later statement at once and separately.
	broken  error
	waiting string // label of a statement that still waits at the server after its caller has given up
}

// Read takes one round trip, and waits for the row. It locks only the row of the primary key.
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
			// While the row is locked, no units move between segments, but sales from segments continue.
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
	// ErrSettled and ErrKeyTaken are refusals, not faults. But the UPDATE before the INSERT has been executed, and must
	// not be committed without an order.
	if repo.Fault(err) || errors.Is(err, service.ErrSettled) || errors.Is(err, service.ErrKeyTaken) {
		t.broken = explained
	}
	return explained
}

const (
	// cancelWaitTimeout limits the attempt to remove a waiter from the server's queue.
	cancelWaitTimeout = 500 * time.Millisecond
	// cancelWaitTries is how often cancelWait looks for the waiting statement, which may still be on its way.
	cancelWaitTries = 3
	cancelWaitPause = 10 * time.Millisecond
)

// waitLabel returns an SQL comment that identifies one waiting statement: the server's list of connections shows the
// texts of their current statements.
func waitLabel() string { return fmt.Sprintf("/* stock waits %016x */", rand.Uint64()) }

// cancelWait kills, from another connection, the statement of a caller that has given up its wait for a row. Otherwise
// the server would notice the disconnected client only when it grants the row, and would keep a connection and a thread
// until then, for innodb_lock_wait_timeout at most.
//
// It takes two round trips if it finds the statement at once. A user needs no privilege to end its own connections. If
// cancelWait fails, the statement stays in the queue until it is granted the row or times out, and then the next waiter
// gets the row.
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
		if driver.Sleep(ctx, cancelWaitPause) != nil {
			return
		}
	}
}

package repo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"gorm.io/gorm"

	"example.com/stock/gate"
	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
	"example.com/stock/service"
)

// Transact begins, runs do, and commits. A transaction that InnoDB ends to resolve a deadlock is run again from the start, so do may
// be called more than once; what it did before is undone.
//
// A waiter whose ctx ends leaves the server's queue, too, which takes two round trips on another connection; see cancelWait. A wait that reaches
// innodb_lock_wait_timeout (50 s by default) ends with lock.ErrHeld.
//
// Behind gates at most Gates.Transactions' Limits.PerKey of this process wait for the row of about; the others wait for
// them, without a connection. A ctx of lock.NoWait finds the row held there, too.
func (m *MySQL) Transact(
	ctx context.Context, about service.SKU, do func(ctx context.Context, tx service.Store) error,
) error {
	const doing = "sell in transaction"
	leave, err := m.enterTransaction(ctx, doing, about)
	if err != nil {
		return err
	}
	left := ""
	err = m.transact(ctx, doing, func(tx *gorm.DB) error {
		store := &transaction{tx: tx}
		err := do(ctx, store)
		left = store.left
		if err != nil {
			return err
		}
		return store.broken
	})
	leave()
	if left != "" {
		m.cancelWait(ctx, left) // now that its connection has gone back: it may be the pool's last
	}
	return err
}

// enterTransaction waits for a turn in front of the row, and then for one of all. The first is a wait for the row like
// that in the server: its end is ErrHeld, unless it was the budget of all transactions that had no room.
func (m *MySQL) enterTransaction(ctx context.Context, doing string, about service.SKU) (leave func(), err error) {
	if ctx.Err() != nil {
		return nil, ctxEnded(ctx, doing)
	}
	if lock.IsNoWait(ctx) && m.gates.Transactions.Busy(string(about)) {
		return nil, fmt.Errorf("%s: row %w, by another of this process", doing, lock.ErrHeld)
	}
	first, err := m.gates.Transactions.Enter(ctx, gate.Request{Key: string(about)})
	if refused, ok := errors.AsType[*gate.RefusedError](err); ok && refused.KeyBusy {
		return nil, fmt.Errorf("%s: row %w, by another of this process: %w", doing, lock.ErrHeld, context.DeadlineExceeded)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	second, err := enter(service.Begin(ctx), m.gates.All, doing, writing(about, 0))
	if err != nil {
		first()
		return nil, err
	}
	return func() { second(); first() }, nil
}

// A transaction is the Store inside Transact.
type transaction struct {
	tx *gorm.DB
	// broken is the first fault, which ends the transaction: after a deadlock, say, the server has rolled back, and whatever
	// followed would be written at once and by itself. So nothing follows, even if do swallows the error.
	broken error
	left   string // label of the statement that still waits at the server, for nobody
}

// Read is one round trip and the wait for the row. The lock is on the row of the primary key exclusively.
func (t *transaction) Read(ctx context.Context, sku service.SKU) (service.Stock, error) {
	const doing = "lock stock"
	label := waitLabel()
	locking := locked + " " + label
	if lock.IsNoWait(ctx) {
		locking = locked + " NOWAIT"
	}
	var row stockRow
	err := t.do(ctx, doing, func(tx *gorm.DB) (err error) {
		row, err = selectRow(tx, sku, locking)
		if err == nil && row.segmented() {
			// Locked: the parts can only be sold from, and this shows how far that has gone.
			err = row.addSegments(tx)
		}
		return err
	})
	if err != nil && mysqlerr.Number(err) == 0 && ctx.Err() != nil {
		t.left = label
		return service.Stock{}, waitEnded(ctx, doing)
	}
	return row.stock(), err
}

// Write is two round trips.
func (t *transaction) Write(ctx context.Context, o service.Order) error {
	if err := checkOrder(o); err != nil {
		return err
	}
	return t.do(ctx, "write order", func(tx *gorm.DB) error { return write(tx, o, blind) })
}

func (t *transaction) do(ctx context.Context, doing string, statements func(tx *gorm.DB) error) error {
	if t.broken != nil {
		return t.broken
	}
	err := statements(t.tx.WithContext(ctx))
	explained := explain(ctx, doing, err)
	// That an id is settledIfTaken is an answer, but the UPDATE before it is done: it must not be committed exclusively.
	if fault(err) || errors.Is(err, service.ErrSettled) {
		t.broken = explained
	}
	return explained
}

const (
	// cancelWaitTimeout bounds the attempt to take a waiter out of the server's queue.
	cancelWaitTimeout = 500 * time.Millisecond
	// cancelWaitTries is how often the waiter is looked for: a question that was given up as it left may yet be on its way.
	cancelWaitTries = 3
	cancelWaitPause = 10 * time.Millisecond
)

// waitLabel is a comment that tells a statement that may wait from all others: the server shows the text of what it is at. It costs the bytes.
func waitLabel() string { return fmt.Sprintf("/* stock waits %016x */", rand.Uint64()) }

// cancelWait ends, from another connection, the wait of a client that has given up. The server does not see that it has gone before it
// would give it the row: the waiter would cost a connection and a thread for as long, innodb_lock_wait_timeout at most.
//
// Two round trips, if it is found at once. To end connections of one's own user needs no privilege. Where it fails, nothing is lost but
// that: the row goes to the next when the server finds nobody there.
func (m *MySQL) cancelWait(ctx context.Context, label string) {
	pool, err := m.db.DB()
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
		err := conn.QueryRowContext(ctx, "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO LIKE ?", "%"+label).Scan(&id)
		if err == nil {
			_, _ = conn.ExecContext(ctx, "KILL CONNECTION "+strconv.FormatInt(id, 10))
			return
		}
		pause := time.NewTimer(cancelWaitPause)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

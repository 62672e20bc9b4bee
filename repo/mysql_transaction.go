package repo

import (
	"context"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"example.com/stock/service"
)

// A sale is a transaction of two packets, and so of two round trips:
//
//  1. START TRANSACTION, and the statement that locks the row of the stock.
//  2. The statements that write, the last of them the INSERT of the orders, and COMMIT.
//
// A sale holds the lock of the row, for which all other sales of the row wait, for one round trip and its flush to
// disk. With a single packet, COMMIT would already be at the server while the first statement waits for the row, and a
// caller that gave up the wait could not know whether it has sold. With two packets COMMIT is sent only after the row
// is locked, so the outcome is unknown only if the reply to COMMIT is lost. See docs/adr/0011-a-sale-is-two-packets.md.
// A node of Galera gets each statement in a packet of its own: see [MySQL.Apart].
//
// The server runs the statements of a packet one after the other, and stops at the first one that fails. Then the
// transaction is still open, unless the error is a deadlock, so a ROLLBACK follows.

// Begin is the text before the first statement of a sale.
const Begin = "START TRANSACTION; "

// InTwoPackets enters the queue and runs a transaction of two packets. first sends the packet that locks the row, and
// returns the statements of the second packet. If first returns an error, nothing is written. After a deadlock first is
// called again.
func (m *MySQL) InTwoPackets(ctx context.Context, doing string, first func(tx *gorm.DB) (*Statement, error)) error {
	leave, err := m.queue.Enter(ctx, doing)
	if err != nil {
		return err
	}
	defer leave()
	return m.repeat(ctx, func() error {
		return m.OnConnection(ctx, doing, func(tx *gorm.DB) error {
			return m.finish(ctx, tx, doing, func() (*Statement, error) {
				last, err := first(tx)
				return last, Explain(ctx, doing, stale(err))
			})
		})
	})
}

// Transaction enters the queue and calls do between BEGIN and COMMIT, which take two more round trips. It converts the
// error of do. After a deadlock it calls do again, after a random pause.
//
// gorm's Transaction is not used, for two reasons. database/sql sends COMMIT without a ctx, so a server that hangs
// there would block the caller for ever. And the error of a COMMIT must be distinguished from all other errors: before
// COMMIT nothing was written, after it the outcome may be unknown.
func (m *MySQL) Transaction(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	leave, err := m.queue.Enter(ctx, doing)
	if err != nil {
		return err
	}
	defer leave()
	return m.transaction(ctx, doing, func(tx *gorm.DB) error { return Explain(ctx, doing, do(tx)) })
}

// TransactionOn is like Transaction, but it first waits for a place in front of the row of sku, until ctx ends. With
// tryOnce it does not wait for the row. That wait, like one at the server, is for the row, so its failure is
// lock.ErrHeld. It returns the error of do unchanged.
func (m *MySQL) TransactionOn(
	ctx context.Context, doing string, sku service.SKU, tryOnce bool, do func(tx *gorm.DB) error,
) error {
	if ctx.Err() != nil {
		return CtxEnded(ctx, doing)
	}
	leaveRow, err := m.rows.enter(ctx, sku, tryOnce)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer leaveRow()
	leave, err := m.queue.Enter(service.Begin(ctx), doing)
	if err != nil {
		return err
	}
	defer leave()
	return m.transaction(ctx, doing, do)
}

func (m *MySQL) transaction(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	attempt := func(tx *gorm.DB) error {
		if err := tx.Exec("START TRANSACTION").Error; err != nil {
			Discard(tx)
			return MySQLFault(ctx, doing, stale(err))
		}
		return m.finish(ctx, tx, doing, func() (*Statement, error) { return &Statement{}, do(tx) })
	}
	return m.repeat(ctx, func() error { return m.OnConnection(ctx, doing, attempt) })
}

// Here the stores leave gorm: the statements that a sale sends are made by hand. With gorm, which makes
// them from maps and structs, the UPDATE and the INSERT of a sale take 42 µs of CPU time and 130 allocations, and by
// hand 4 µs and 20. A whole sale (strategy atomic, 30 contenders, on the same computer) takes some 390 µs and 129
// allocations of this process, so gorm would add a tenth to its time, and most of that while its row is locked and all
// other sales of the SKU wait. Most other statements are gorm's.

// A Statement is SQL and its parameters.
type Statement struct {
	Text strings.Builder
	Args []any
}

// Add appends text and its parameters.
func (s *Statement) Add(text string, args ...any) {
	s.Text.WriteString(text)
	s.Args = append(s.Args, args...)
}

// Apart calls do with each statement of s in turn, until do returns an error. No text has a "; " or a question mark
// within a statement, because values are parameters.
func (s *Statement) Apart(do func(text string, args []any) error) error {
	args := s.Args
	for text := range strings.SplitSeq(s.Text.String(), "; ") {
		n := strings.Count(text, "?")
		if err := do(text, args[:n]); err != nil {
			return err
		}
		args = args[n:]
	}
	return nil
}

// Send executes a statement on the connection of tx.
func Send(tx *gorm.DB, text string, args ...any) (rows int64, err error) {
	done, err := tx.Statement.ConnPool.ExecContext(tx.Statement.Context, text, args...)
	if err != nil {
		return 0, err
	}
	return done.RowsAffected()
}

package repo

import (
	"context"

	"gorm.io/gorm"
)

// A sale is a transaction of two packets, and so of two round trips:
//
//  1. START TRANSACTION, and the statement that locks the row of the stock.
//  2. The statements that write, the last of them the INSERT of the orders, and COMMIT.
//
// All sales of the row wait for what the first one does while it has the lock: from the end of its first packet, one
// round trip and its flush. One packet would be less, and was not chosen: COMMIT would lie at the server while the
// first statement waits for the row. Whoever leaves the queue then could not be told that nothing was sold. With two,
// COMMIT is sent when the row is locked, so that an outcome is unknown only if the reply to COMMIT did not come. See
// docs/adr/0019-a-sale-is-two-packets.md.
//
// The server runs the statements of a packet one after the other, and stops at the first that fails. The transaction is
// then open, unless it was a deadlock, and what is left of the packet is not run: a ROLLBACK follows.

// Begin is before the first statement of a sale.
const Begin = "START TRANSACTION; "

// InTwo runs a transaction of two packets. first sends the one that locks the row, and returns the statements of the
// second. If it returns an error nothing is written. After a deadlock it is called again.
func (m *MySQL) InTwo(ctx context.Context, doing string, first func(tx *gorm.DB) (*Statement, error)) error {
	return m.repeat(ctx, func() error {
		return m.OnConnection(ctx, doing, func(tx *gorm.DB) error {
			return m.finish(ctx, tx, doing, func() (*Statement, error) {
				last, err := first(tx)
				return last, Explain(ctx, doing, stale(err))
			})
		})
	})
}

// Transaction runs do between BEGIN and COMMIT, which are two round trips more. After a deadlock it runs do again, with
// jitter.
//
// It is not gorm's Transaction, for two reasons. database/sql sends COMMIT without a ctx, so a server that hangs there
// would hold the caller for ever. And the error of a COMMIT must be told from all others: before COMMIT nothing can
// have been written, after it anything may have been.
func (m *MySQL) Transaction(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	return m.repeat(ctx, func() error { return m.attempt(ctx, doing, do) })
}

func (m *MySQL) attempt(ctx context.Context, doing string, do func(tx *gorm.DB) error) error {
	return m.OnConnection(ctx, doing, func(tx *gorm.DB) error {
		if err := tx.Exec("START TRANSACTION").Error; err != nil {
			Discard(tx)
			return MySQLFault(ctx, doing, stale(err))
		}
		return m.finish(ctx, tx, doing, func() (*Statement, error) { return &Statement{}, do(tx) })
	})
}

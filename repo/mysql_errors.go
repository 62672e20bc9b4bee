package repo

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/lock"
	"example.com/stock/mysqlerr"
)

// unreachable tells whether err is of the connection.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF)
}

// deadlocked tells whether InnoDB has rolled the transaction back for a reason that a second try does not meet.
func deadlocked(err error) bool {
	n := mysqlerr.Number(err)
	return n == mysqlerr.Deadlock || n == mysqlerr.Checkread
}

// unread is [explain] for a statement that reads, or that was not sent because there was no connection: if ctx ended
// while the pool had none free, that is our load and says nothing of the server. Only a pool without a gate before it,
// or one that others share, comes to that.
func (m *MySQL) unread(ctx context.Context, doing string, err error) error {
	if mysqlerr.Number(err) == 0 && errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		if pool, bad := m.db.DB(); bad == nil {
			if s := pool.Stats(); s.MaxOpenConnections > 0 && s.InUse >= s.MaxOpenConnections {
				return fmt.Errorf("%s: all %d connections are in use: %w", doing, s.InUse, lock.ErrOverloaded)
			}
		}
	}
	return explain(ctx, doing, err)
}

// mysqlFault is what a failed statement of a transaction that was not committed means: nothing was written, because the server rolls
// back what it was not told to commit, also when the connection dies.
func mysqlFault(ctx context.Context, doing string, err error) error {
	n := mysqlerr.Number(err)
	switch {
	case err == nil:
		return nil
	case n == 0 && ctx.Err() != nil:
		return ended(ctx, doing)
	case n == 0:
		// Refused, reset, closed by the server, no route: all the driver's, and none after COMMIT.
		return lock.Down(doing, err)
	case n == mysqlerr.LockWaitTimeout, n == mysqlerr.LockNowait, deadlocked(err):
		return fmt.Errorf("%s: row %w: %w", doing, lock.ErrHeld, err)
	}
	if reason := mysqlerr.DownReason(n); reason != "" {
		return fmt.Errorf("%s: %w: %w", doing, &lock.DownError{Server: "mysql", Reason: reason}, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

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

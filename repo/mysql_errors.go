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
)

// Error numbers of MySQL and MariaDB that mean something here.
const (
	erDBAccessDenied   = 1044
	erAccessDenied     = 1045
	erBadDB            = 1049
	erTableaccess      = 1142
	erServerShutdown   = 1053
	erTooManyConns     = 1040
	erTooManyUserConns = 1203
	erUserLimit        = 1226
	erHostBlocked      = 1129
	erHostNotAllowed   = 1130
	erNoSuchTable      = 1146
	erBadField         = 1054
	erDupEntry         = 1062
	erLockWaitTimeout  = 1205 // also MariaDB's answer to NOWAIT
	erLockNowait       = 3572
	erDeadlock         = 1213
	erCheckread        = 1020 // MariaDB from 11.6: a row has changed since the snapshot
	erOptionPrevents   = 1290
	erReadOnlyMode     = 1836
	erReadOnlyTx       = 1792
	erDiskFull         = 1021
	erInterrupted      = 1317
	erKilled           = 1927 // MariaDB
)

func mysqlNumber(err error) uint16 {
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		return told.Number
	}
	return 0
}

// unreachable tells whether err is of the connection.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.EOF)
}

// deadlocked tells whether InnoDB has rolled the transaction back for a reason that a second try does not meet.
func deadlocked(err error) bool {
	n := mysqlNumber(err)
	return n == erDeadlock || n == erCheckread
}

// mysqlFault is what a failed statement of a transaction that was not committed means: nothing was written, because the server rolls
// back what it was not told to commit, also when the connection dies.
func mysqlFault(ctx context.Context, doing string, err error) error {
	n := mysqlNumber(err)
	switch {
	case err == nil:
		return nil
	case n == 0 && ctx.Err() != nil:
		return ended(ctx, doing)
	case n == 0:
		// Refused, reset, closed by the server, no route: all the driver's, and none after COMMIT.
		return lock.Down(doing, err)
	case n == erLockWaitTimeout, n == erLockNowait, deadlocked(err):
		return fmt.Errorf("%s: row %w: %w", doing, lock.ErrHeld, err)
	}
	if reason := downReason(n); reason != "" {
		return fmt.Errorf("%s: %w: %w", doing, &lock.DownError{Server: "mysql", Reason: reason}, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// downReason says, in words without names and addresses, why the server cannot serve; "" if that is not what n means.
func downReason(n uint16) string {
	switch n {
	case erNoSuchTable:
		return "the schema is missing: run stock migrate up"
	case erBadField:
		return "the schema is too old: run stock migrate up"
	case erBadDB:
		return "the database does not exist: create it"
	case erOptionPrevents, erReadOnlyMode, erReadOnlyTx:
		return "it is read-only: the address must be the master's"
	case erTooManyConns, erTooManyUserConns, erUserLimit:
		return "it has too many connections: raise max_connections or lower the pools"
	case erHostBlocked, erHostNotAllowed:
		return "it does not let this host in"
	case erAccessDenied, erDBAccessDenied, erTableaccess:
		return "access denied: check user, password and grants"
	case erDiskFull:
		return "its disk is full"
	case erServerShutdown, erInterrupted, erKilled:
		return "it is shutting down or an operator ended the statement"
	}
	return ""
}

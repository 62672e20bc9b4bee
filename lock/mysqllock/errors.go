package mysqllock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/lock"
)

// Error numbers of MySQL and MariaDB that mean something here.
const (
	erTooManyConns     = 1040
	erDBAccessDenied   = 1044
	erAccessDenied     = 1045
	erBadDB            = 1049
	erServerShutdown   = 1053
	erBadField         = 1054
	erDupEntry         = 1062
	erNoSuchThread     = 1094
	erTableAccess      = 1142
	erNoSuchTable      = 1146
	erTooManyUserConns = 1203
	erLockWaitTimeout  = 1205 // also MariaDB's answer to NOWAIT
	erDeadlock         = 1213
	erUserLimit        = 1226
	erOptionPrevents   = 1290
	erInterrupted      = 1317 // KILL QUERY
	erReadOnlyMode     = 1836
	erKilled           = 1927 // MariaDB: KILL
	erStatementTime    = 1969 // MariaDB: max_statement_time
	erExecutionTime    = 3024 // MySQL: max_execution_time
	erLockNowait       = 3572 // MySQL
)

var (
	// errBusy: another has it. The session is as it was.
	errBusy = errors.New("held")
	// errAgain: the server ended the statement for a reason that the next try may not meet.
	errAgain = errors.New("interrupted by the server")
)

// number is that of an error that the server has sent; 0: err is of the connection, and what the server did is not known.
func number(err error) uint16 {
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		return told.Number
	}
	return 0
}

// collided tells whether the statement, which had a transaction of its own, was undone in favour of another.
func collided(err error) bool {
	n := number(err)
	return n == erDeadlock || n == erLockWaitTimeout
}

// fault is what a failed statement means to who asked under ctx.
func fault(ctx context.Context, doing string, err error) error {
	n := number(err)
	switch {
	case errors.Is(err, lock.ErrDown):
		return fmt.Errorf("%s: %w", doing, err)
	case n == 0 && ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx)) // the wait was over; that says nothing of the server
	case n == 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
		// Our own bound, which must not be taken for the caller's.
		return fmt.Errorf("%s: %w", doing, &lock.DownError{Server: "mysql", Reason: "no answer within " + answerTimeout.String()})
	case n == 0:
		return lock.Down(doing, err)
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
	case erOptionPrevents, erReadOnlyMode:
		return "it is read-only: the address must be the master's"
	case erTooManyConns, erTooManyUserConns, erUserLimit:
		return "it has too many connections: raise max_connections or lower the pools"
	case erAccessDenied, erDBAccessDenied, erTableAccess:
		return "access denied: check user, password and grants"
	case erServerShutdown, erInterrupted, erKilled:
		return "it is shutting down or an operator ended the statement"
	}
	return ""
}

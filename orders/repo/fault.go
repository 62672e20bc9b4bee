package repo

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/orders/service"
)

// Error numbers of MySQL and MariaDB.
const (
	tooManyConnections = 1040
	shutdown           = 1053
	duplicate          = 1062
	noSuchTable        = 1146
	lockTimeout        = 1205
	deadlock           = 1213
	readOnlyOption     = 1290
	readOnly           = 1836
	checkMySQL         = 3819
	checkMariaDB       = 4025
)

// number returns the number of an error of the server; 0: it is none.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// isDatabase tells errors of the server, of the driver and of the network from those of a rule.
func isDatabase(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return number(err) != 0 || network || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sql.ErrTxDone) || errors.Is(err, sql.ErrConnDone)
}

// mayRetry reports whether the step has written nothing and may succeed at once. A duplicate comes here only if the key
// was forgotten meanwhile.
func mayRetry(err error) bool {
	n := number(err)
	return (n == deadlock || n == lockTimeout || n == duplicate) && !errors.Is(err, service.ErrUnknown)
}

// commitError: only an answer of the server says that a COMMIT has not happened.
func commitError(err error) error {
	if n := number(err); n == deadlock || n == lockTimeout {
		return err
	}
	return fmt.Errorf("%w: %w", service.ErrUnknown, err)
}

// explain returns what an error of the database means.
func explain(err error) error {
	if err == nil || !isDatabase(err) || errors.Is(err, service.ErrUnknown) {
		return err
	}
	switch number(err) {
	case deadlock, lockTimeout:
		return fmt.Errorf("%w: %w", service.ErrBusy, err)
	case checkMySQL, checkMariaDB:
		return fmt.Errorf("%w: %w", service.ErrUnbalanced, err)
	case 0, tooManyConnections, shutdown, readOnlyOption, readOnly:
		return fmt.Errorf("%w: %w", service.ErrDown, err)
	}
	return err
}

// Package mysqlerr tells what the error numbers of MySQL and MariaDB mean to code that keeps stock or locks there.
package mysqlerr

import (
	"errors"

	"github.com/go-sql-driver/mysql"
)

// The numbers that mean something here, by their names in the documentation of the servers.
const (
	Checkread       = 1020 // MariaDB from 11.6: a row has changed since the snapshot
	DiskFull        = 1021
	TooManyConns    = 1040
	DBAccessDenied  = 1044
	AccessDenied    = 1045
	BadNull         = 1048
	BadDB           = 1049
	ServerShutdown  = 1053
	BadField        = 1054
	DupEntry        = 1062
	NoSuchThread    = 1094
	KillDenied      = 1095
	HostBlocked     = 1129
	HostNotAllowed  = 1130
	TableAccess     = 1142
	NoSuchTable     = 1146
	TooManyOfUser   = 1203
	LockWaitTimeout = 1205 // also MariaDB's answer to NOWAIT
	Deadlock        = 1213
	UserLimit       = 1226
	OptionPrevents  = 1290 // such as --read-only
	Interrupted     = 1317 // KILL QUERY
	BadValue        = 1366
	ReadOnlyTx      = 1792
	ReadOnlyMode    = 1836
	Killed          = 1927 // MariaDB: KILL
	StatementTime   = 1969 // MariaDB: max_statement_time
	ExecutionTime   = 3024 // MySQL: max_execution_time
	RolledBack      = 3101 // MySQL: a plugin, such as group replication, refused the commit
	LockNowait      = 3572 // MySQL's answer to NOWAIT
	CheckViolated   = 3819 // MySQL; MariaDB's is of a class
)

// Number returns the number of an error that the server has sent. 0 means that err is of the connection, and that
// what the server did is not known.
func Number(err error) uint16 {
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		return told.Number
	}
	return 0
}

// NotCommitted reports whether n, as the answer to COMMIT, proves that nothing was written: the server refused to begin
// with it, or another node of a cluster did. All other errors prove nothing. One that ends a statement, such as KILL,
// max_statement_time or a shutdown, may come when the transaction is in the binary log and waits for a replica: it is
// committed all the same.
func NotCommitted(n uint16) bool {
	switch n {
	case OptionPrevents, ReadOnlyMode, ReadOnlyTx, Deadlock, RolledBack:
		return true
	}
	return false
}

// Refused reports whether the server has refused a statement for its names, its values, or what is in a table already.
// That is never said of a COMMIT. So where a packet has statements before its COMMIT, one of them failed, and COMMIT
// was not run. Other errors, such as the end of a statement by KILL, may be of either.
func Refused(err error) bool {
	var told *mysql.MySQLError
	if !errors.As(err, &told) {
		return false
	}
	switch told.Number {
	case BadValue, CheckViolated: // of the general class in MySQL
		return true
	}
	switch string(told.SQLState[:2]) {
	case "21", "22", "23", "42": // cardinality, data, integrity, syntax and access
		return true
	}
	return false
}

// DownReason says why the server cannot serve, in words without names and addresses, and if that is known how to mend
// it. It returns "" if that is not what n means.
func DownReason(n uint16) string {
	switch n {
	case NoSuchTable:
		return "the schema is missing: run stock migrate up"
	case BadField:
		return "the schema is too old: run stock migrate up"
	case BadDB:
		return "the database does not exist: create it"
	case OptionPrevents, ReadOnlyMode, ReadOnlyTx:
		return "it is read-only: the address must be the master's"
	case TooManyConns, TooManyOfUser, UserLimit:
		return "it has too many connections: raise max_connections or lower the pools"
	case HostBlocked, HostNotAllowed:
		return "it does not let this host in"
	case AccessDenied, DBAccessDenied, TableAccess:
		return "access denied: check user, password and grants"
	case KillDenied:
		return "the holder's connection is another database user's: grant CONNECTION ADMIN, or let all use one user"
	case DiskFull:
		return "its disk is full"
	case ServerShutdown, Interrupted, Killed:
		return "it is shutting down or an operator ended the statement"
	case StatementTime, ExecutionTime:
		return "it ended a statement that took longer than it allows"
	}
	return ""
}

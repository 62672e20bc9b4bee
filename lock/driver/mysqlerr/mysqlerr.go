// Package mysqlerr classifies the error numbers of MySQL and MariaDB for code that keeps stock or locks there.
package mysqlerr

import (
	"errors"

	"github.com/go-sql-driver/mysql"
)

// The error numbers that this project distinguishes, by their names in the documentation of the servers.
const (
	Checkread        = 1020 // MariaDB from 11.6: a row has changed since the snapshot
	DiskFull         = 1021
	ErrorOnWrite     = 1026
	GetErrno         = 1030
	NotKeyfile       = 1034
	OpenAsReadOnly   = 1036
	OutOfMemory      = 1037
	OutOfSortMemory  = 1038
	TooManyConns     = 1040
	OutOfResources   = 1041
	DBAccessDenied   = 1044
	AccessDenied     = 1045
	NodeNotReady     = 1047 // Galera
	BadNull          = 1048
	BadDB            = 1049
	ServerShutdown   = 1053
	BadField         = 1054
	DupEntry         = 1062
	NoSuchThread     = 1094
	KillDenied       = 1095
	RecordFileFull   = 1114 // InnoDB's answer when its disk is full, or a data file has its largest size
	HostBlocked      = 1129
	HostNotAllowed   = 1130
	TableAccess      = 1142
	NoSuchTable      = 1146
	ErrorInCommit    = 1180
	CrashedOnUsage   = 1194
	CrashedOnRepair  = 1195
	TooManyOfUser    = 1203
	LockWaitTimeout  = 1205 // also MariaDB's answer to NOWAIT
	LockTableFull    = 1206
	ReadLocked       = 1223
	Deadlock         = 1213
	UserLimit        = 1226
	OptionPrevents   = 1290 // such as --read-only
	Interrupted      = 1317 // KILL QUERY
	BadValue         = 1366
	BinlogImpossible = 1598
	BinlogFormat     = 1665
	TooManyTrxs      = 1637
	Signaled         = 1644 // by a trigger
	IndexCorrupt     = 1712
	ReadOnlyTx       = 1792
	ReadOnlyMode     = 1836
	InnoDBReadOnly   = 1874
	ForcedRecovery   = 1881
	Killed           = 1927 // MariaDB: KILL
	StatementTime    = 1969 // MariaDB: max_statement_time
	ExecutionTime    = 3024 // MySQL: max_execution_time
	HookFailed       = 3100 // MySQL: a plugin failed before or after the commit
	RolledBack       = 3101 // MySQL: a plugin, such as group replication, refused the commit
	LockNowait       = 3572 // MySQL's answer to NOWAIT
	CheckViolated    = 3819 // MySQL; Of knows MariaDB's by its SQLSTATE
)

// An Outcome is what an error proves about the transaction in which it occurs.
type Outcome int

const (
	// Unknown proves nothing if COMMIT was sent, alone or after statements in one packet: the transaction may be
	// committed. A number that is not in the table is Unknown, unless its SQLSTATE is of a statement: see Of.
	Unknown Outcome = iota
	// OfStatement is never the reply to a COMMIT. The server stops at the first statement of a packet that fails, so it
	// has not run a COMMIT after it.
	OfStatement
	// NotCommitted proves that nothing was written, even as the reply to COMMIT.
	NotCommitted
)

// A Meaning is what a number means.
type Meaning struct {
	Number  uint16
	Outcome Outcome
	// Reason is why the server cannot serve, a code of driver.DownError. It is empty if the server can serve others.
	Reason string
	Full   bool   // the server has no room for more data
	Why    string // the reason for Outcome
}

const (
	readOnly = "read-only"
	denied   = "access-denied"
	byRow    = "statement-binlog"
)

// Denied reports whether the server refuses until a person grants a right or changes a setting.
func (m Meaning) Denied() bool { return m.Reason == denied || m.Reason == byRow }

// ReadOnly reports whether the server accepts no writes. Another server may have become the master, which only a new
// connection reaches.
func (m Meaning) ReadOnly() bool { return m.Reason == readOnly }

// Meanings returns the table of all meanings, one row for each number.
func Meanings() []Meaning {
	const (
		full    = "disk-full"
		memory  = "no-memory"
		damaged = "table-damaged"
		conns   = "too-many-connections"
		host    = "host-not-allowed"
		ended   = "shutting-down"
		late    = "statement-too-long"
		files   = "cannot-write-files"

		row     = "it is about a row or a page, and COMMIT touches neither"
		begun   = "it comes before the statement, or the COMMIT, begins"
		login   = "it is about a new connection, on which nothing was sent yet"
		names   = "it is about the names in a statement"
		endless = "COMMIT may be in the binary log already, and only wait for a replica"
		binlog  = "it may be about the binary log, to which COMMIT has written in part"
		engines = "COMMIT also returns it for any fault in a storage engine"
	)
	return []Meaning{
		{Checkread, OfStatement, "", false, "InnoDB has rolled back for a row that changed; it may be run again"},
		{DiskFull, OfStatement, full, true, row},
		{ErrorOnWrite, Unknown, files, false, binlog},
		{GetErrno, Unknown, "engine-failed", false, engines},
		{NotKeyfile, OfStatement, damaged, false, row},
		{OpenAsReadOnly, OfStatement, readOnly, false, "of a table that a statement would change"},
		{OutOfMemory, Unknown, memory, false, engines},
		{OutOfSortMemory, OfStatement, memory, false, "of a statement that sorts"},
		{TooManyConns, NotCommitted, conns, false, login},
		{OutOfResources, Unknown, memory, false, engines},
		{DBAccessDenied, OfStatement, denied, false, login},
		{AccessDenied, OfStatement, denied, false, login},
		{
			NodeNotReady, NotCommitted, "lost-its-galera-cluster", false,
			"the node refuses every statement, COMMIT included, and has rolled back what was open",
		},
		{BadNull, OfStatement, "", false, "of a value"},
		{BadDB, OfStatement, "no-database", false, names},
		{ServerShutdown, Unknown, ended, false, endless},
		{BadField, OfStatement, "old-schema", false, names},
		{DupEntry, OfStatement, "", false, "of a value"},
		{
			KillDenied, OfStatement, "cannot-kill", false, "of KILL",
		},
		{RecordFileFull, OfStatement, full, true, row},
		{HostBlocked, NotCommitted, host, false, login},
		{HostNotAllowed, NotCommitted, host, false, login},
		{TableAccess, OfStatement, denied, false, names},
		{NoSuchTable, OfStatement, "no-schema", false, names},
		{ErrorInCommit, Unknown, files, false, engines},
		{CrashedOnUsage, OfStatement, damaged, false, row},
		{CrashedOnRepair, OfStatement, damaged, false, row},
		{TooManyOfUser, OfStatement, conns, false, login},
		{
			LockWaitTimeout, NotCommitted, "", false,
			"of a row; a COMMIT that waits for FLUSH TABLES WITH READ LOCK is rolled back",
		},
		{
			LockTableFull, OfStatement, "no-room-for-locks", false,
			"InnoDB has rolled the transaction back",
		},
		{ReadLocked, NotCommitted, "tables-locked", false, begun},
		{Deadlock, NotCommitted, "", false, "rolled back by InnoDB, or at COMMIT by another node of a Galera cluster"},
		{UserLimit, OfStatement, conns, false, begun},
		{OptionPrevents, NotCommitted, readOnly, false, begun},
		{Interrupted, Unknown, ended, false, endless},
		{BadValue, OfStatement, "", false, "of a value"},
		{BinlogImpossible, Unknown, files, false, binlog},
		{
			BinlogFormat, OfStatement, byRow, false,
			"of a statement that would change a row: a binary log of statements cannot repeat READ COMMITTED",
		},
		{TooManyTrxs, OfStatement, "too-many-transactions", false, "of the first row that is written"},
		{Signaled, OfStatement, "refused-by-a-trigger", false, "of a row"},
		{IndexCorrupt, OfStatement, damaged, false, row},
		{ReadOnlyTx, NotCommitted, readOnly, false, begun},
		{ReadOnlyMode, NotCommitted, readOnly, false, begun},
		{InnoDBReadOnly, OfStatement, readOnly, false, row},
		{ForcedRecovery, OfStatement, readOnly, false, row},
		{Killed, Unknown, ended, false, endless},
		{StatementTime, Unknown, late, false, endless},
		{ExecutionTime, OfStatement, late, false, "of a SELECT alone"},
		{HookFailed, Unknown, "plugin-failed", false, "the plugin may run behind the commit"},
		{RolledBack, NotCommitted, "", false, "says so itself"},
		{LockNowait, OfStatement, "", false, "of a row"},
		{CheckViolated, OfStatement, "", false, "of a value"},
	}
}

// Of returns the meaning of an error. If its number is not in the table, the meaning has the number, and an Outcome of
// OfStatement if the class of its SQLSTATE is that of statements, or else Unknown.
func Of(err error) Meaning {
	n := Number(err)
	if n == 0 {
		return Meaning{} // after most statements: the table would cost more than the question
	}
	for _, m := range Meanings() {
		if m.Number == n {
			return m
		}
	}
	m := Meaning{Number: n}
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		switch string(told.SQLState[:2]) {
		case "21", "22", "23", "42": // cardinality, data, integrity, syntax and access
			m.Outcome = OfStatement
		}
	}
	return m
}

// Number returns the number of an error that the server has sent. It returns 0 for other errors, which do not show what
// the server has done.
func Number(err error) uint16 {
	var told *mysql.MySQLError
	if errors.As(err, &told) {
		return told.Number
	}
	return 0
}

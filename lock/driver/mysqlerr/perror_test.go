package mysqlerr_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"example.com/stock/lock/driver/mysqlerr"
)

// The server's own program knows each number by this name. It knows none that MySQL alone has.
func TestTheServersNames(t *testing.T) {
	perror, err := exec.LookPath("perror")
	if err != nil {
		if os.Getenv("REQUIRE_BACKENDS") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	for n, name := range map[uint16]string{
		mysqlerr.Checkread:        "ER_CHECKREAD",
		mysqlerr.DiskFull:         "ER_DISK_FULL",
		mysqlerr.ErrorOnWrite:     "ER_ERROR_ON_WRITE",
		mysqlerr.GetErrno:         "ER_GET_ERRNO",
		mysqlerr.NotKeyfile:       "ER_NOT_KEYFILE",
		mysqlerr.OpenAsReadOnly:   "ER_OPEN_AS_READONLY",
		mysqlerr.OutOfMemory:      "ER_OUTOFMEMORY",
		mysqlerr.OutOfSortMemory:  "ER_OUT_OF_SORTMEMORY",
		mysqlerr.TooManyConns:     "ER_CON_COUNT_ERROR",
		mysqlerr.OutOfResources:   "ER_OUT_OF_RESOURCES",
		mysqlerr.DBAccessDenied:   "ER_DBACCESS_DENIED_ERROR",
		mysqlerr.AccessDenied:     "ER_ACCESS_DENIED_ERROR",
		mysqlerr.NodeNotReady:     "ER_UNKNOWN_COM_ERROR",
		mysqlerr.BadNull:          "ER_BAD_NULL_ERROR",
		mysqlerr.BadDB:            "ER_BAD_DB_ERROR",
		mysqlerr.ServerShutdown:   "ER_SERVER_SHUTDOWN",
		mysqlerr.BadField:         "ER_BAD_FIELD_ERROR",
		mysqlerr.DupEntry:         "ER_DUP_ENTRY",
		mysqlerr.NoSuchThread:     "ER_NO_SUCH_THREAD",
		mysqlerr.KillDenied:       "ER_KILL_DENIED_ERROR",
		mysqlerr.RecordFileFull:   "ER_RECORD_FILE_FULL",
		mysqlerr.HostBlocked:      "ER_HOST_IS_BLOCKED",
		mysqlerr.HostNotAllowed:   "ER_HOST_NOT_PRIVILEGED",
		mysqlerr.TableAccess:      "ER_TABLEACCESS_DENIED_ERROR",
		mysqlerr.NoSuchTable:      "ER_NO_SUCH_TABLE",
		mysqlerr.ErrorInCommit:    "ER_ERROR_DURING_COMMIT",
		mysqlerr.CrashedOnUsage:   "ER_CRASHED_ON_USAGE",
		mysqlerr.CrashedOnRepair:  "ER_CRASHED_ON_REPAIR",
		mysqlerr.TooManyOfUser:    "ER_TOO_MANY_USER_CONNECTIONS",
		mysqlerr.LockWaitTimeout:  "ER_LOCK_WAIT_TIMEOUT",
		mysqlerr.LockTableFull:    "ER_LOCK_TABLE_FULL",
		mysqlerr.ReadLocked:       "ER_CANT_UPDATE_WITH_READLOCK",
		mysqlerr.Deadlock:         "ER_LOCK_DEADLOCK",
		mysqlerr.UserLimit:        "ER_USER_LIMIT_REACHED",
		mysqlerr.OptionPrevents:   "ER_OPTION_PREVENTS_STATEMENT",
		mysqlerr.Interrupted:      "ER_QUERY_INTERRUPTED",
		mysqlerr.BadValue:         "ER_TRUNCATED_WRONG_VALUE_FOR_FIELD",
		mysqlerr.BinlogImpossible: "ER_BINLOG_LOGGING_IMPOSSIBLE",
		mysqlerr.BinlogFormat:     "ER_BINLOG_STMT_MODE_AND_ROW_ENGINE",
		mysqlerr.TooManyTrxs:      "ER_TOO_MANY_CONCURRENT_TRXS",
		mysqlerr.Signaled:         "ER_SIGNAL_EXCEPTION",
		mysqlerr.IndexCorrupt:     "ER_INDEX_CORRUPT",
		mysqlerr.ReadOnlyTx:       "ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION",
		mysqlerr.ReadOnlyMode:     "ER_READ_ONLY_MODE",
		mysqlerr.InnoDBReadOnly:   "ER_INNODB_READ_ONLY",
		mysqlerr.Killed:           "ER_CONNECTION_KILLED",
		mysqlerr.StatementTime:    "ER_STATEMENT_TIMEOUT",
	} {
		text, err := exec.CommandContext(t.Context(), perror, fmt.Sprint(n)).CombinedOutput()
		if err != nil || !strings.Contains(string(text), "("+name+")") {
			t.Errorf("%d is not %s: %v, %s", n, name, err, text)
		}
	}
}

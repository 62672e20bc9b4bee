package mysqlerr_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/internal/mysqlerr"
)

func TestNumberIsTheServersAlone(t *testing.T) {
	told := fmt.Errorf("write order: %w", &mysql.MySQLError{Number: mysqlerr.Deadlock})
	if got := mysqlerr.Number(told); got != mysqlerr.Deadlock {
		t.Errorf("%d, want 1213", got)
	}
	for _, err := range []error{nil, mysql.ErrInvalidConn} {
		if got := mysqlerr.Number(err); got != 0 {
			t.Errorf("%v is number %d", err, got)
		}
	}
}

// What another client did is no fault of the server's; what an operator must mend says how.
func TestDownReason(t *testing.T) {
	for _, n := range []uint16{
		0, mysqlerr.DupEntry, mysqlerr.LockWaitTimeout, mysqlerr.Deadlock, mysqlerr.LockNowait, mysqlerr.NoSuchThread,
	} {
		if reason := mysqlerr.DownReason(n); reason != "" {
			t.Errorf("%d is %q", n, reason)
		}
	}
	for n, fix := range map[uint16]string{
		mysqlerr.NoSuchTable: "stock migrate up", mysqlerr.BadField: "stock migrate up", mysqlerr.ReadOnlyTx: "master",
		mysqlerr.TooManyOfUser: "max_connections", mysqlerr.TableAccess: "grants",
		mysqlerr.KillDenied: "CONNECTION ADMIN",
	} {
		if reason := mysqlerr.DownReason(n); !strings.Contains(reason, fix) {
			t.Errorf("%d is %q, want one that names %s", n, reason, fix)
		}
	}
}

package mysqlerr_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-sql-driver/mysql"

	"example.com/stock/lock/driver/mysqlerr"
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

func told(n uint16) mysqlerr.Meaning { return mysqlerr.Of(&mysql.MySQLError{Number: n}) }

// What another client did is no fault of the server's; what an operator must mend has a reason.
func TestReasons(t *testing.T) {
	for _, n := range []uint16{
		0, mysqlerr.DupEntry, mysqlerr.LockWaitTimeout, mysqlerr.Deadlock, mysqlerr.LockNowait, mysqlerr.NoSuchThread,
	} {
		if reason := told(n).Reason; reason != "" {
			t.Errorf("%d is %q", n, reason)
		}
	}
	for n, want := range map[uint16]string{
		mysqlerr.NoSuchTable: "no-schema", mysqlerr.BadField: "old-schema", mysqlerr.ReadOnlyTx: "read-only",
		mysqlerr.TooManyOfUser: "too-many-connections", mysqlerr.TableAccess: "access-denied",
		mysqlerr.KillDenied: "cannot-kill",
	} {
		if reason := told(n).Reason; reason != want {
			t.Errorf("%d is %q, want %s", n, reason, want)
		}
	}
}

// Every number of the issue is decided, by itself and not by its class.
func TestOutcomes(t *testing.T) {
	want := map[mysqlerr.Outcome][]uint16{
		mysqlerr.Unknown:      {1026, 1030, 1037, 1041, 1053, 1180, 1317, 1598, 1927, 1969, 3100},
		mysqlerr.OfStatement:  {1021, 1114, 1194, 1195, 1203, 1206, 1637, 1874, 3024},
		mysqlerr.NotCommitted: {1040, 1047, 1205, 1213, 1223, 1290, 1792, 1836, 3101},
	}
	for outcome, numbers := range want {
		for _, n := range numbers {
			if got := told(n).Outcome; got != outcome {
				t.Errorf("%d is %v, want %v", n, got, outcome)
			}
		}
	}
	seen := map[uint16]bool{}
	for _, m := range mysqlerr.Meanings() {
		if seen[m.Number] || m.Why == "" {
			t.Errorf("%d stands twice, or without a reason", m.Number)
		}
		seen[m.Number] = true
		if full := m.Number == 1021 || m.Number == 1114; m.Full != full {
			t.Errorf("%d: full %t", m.Number, m.Full)
		}
		readOnly := slices.Contains([]uint16{1036, 1290, 1792, 1836, 1874, 1881}, m.Number)
		if m.ReadOnly() != readOnly {
			t.Errorf("%d: read-only %t", m.Number, m.ReadOnly())
		}
	}
	for class, outcome := range map[string]mysqlerr.Outcome{
		"22001": mysqlerr.OfStatement, "42000": mysqlerr.OfStatement, "HY000": mysqlerr.Unknown,
	} {
		e := &mysql.MySQLError{Number: 9999}
		copy(e.SQLState[:], class)
		if got := mysqlerr.Of(e).Outcome; got != outcome {
			t.Errorf("an unknown number of class %s is %v, want %v", class, got, outcome)
		}
	}
}

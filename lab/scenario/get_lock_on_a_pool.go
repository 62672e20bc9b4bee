package scenario

import (
	"database/sql"
	"slices"

	"example.com/stock/lab"
)

func getLockOnAPool() lab.Scenario {
	return lab.Scenario{
		Name: "get-lock-on-a-pool", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat([]lab.Case{
			{Code: "naive", Variant: "any-connection", Want: lab.Forecast{Outcome: lab.Blocks}},
			{Code: "fixed", Variant: "one-connection", Want: lab.Forecast{Outcome: lab.Safe}},
		}),
		Run: func(b *lab.Testbed) lab.Observation {
			program, other := b.DB(), newSession(b, b.ServiceDB(), "B")
			name := b.SKU
			call := func(who string, on interface {
				QueryRow(query string, args ...any) *sql.Row
			}, function string,
			) int64 {
				return b.Int(who, on, "SELECT COALESCE("+function+", -1)", name)
			}
			if b.Case.Code == "fixed" {
				conn := newSession(b, program, "A")
				b.Require(call("A", row{conn}, "GET_LOCK(?, 0)") == 1, "A gets the lock")
				b.Require(call("A", row{conn}, "RELEASE_LOCK(?)") == 1, "A releases the lock")
			} else {
				b.Require(call("A", program, "GET_LOCK(?, 0)") == 1, "A gets the lock")
				somebody := newSession(b, program, "somebody") // the pool reuses its idle connection
				released := call("A", program, "RELEASE_LOCK(?)")
				b.Require(somebody.Close() == nil, "the pool has its connection back")
				b.Evidence(lab.Answer, released, "released-nothing", "answer", released)
			}
			if call("B", row{other}, "GET_LOCK(?, 0)") == 1 {
				call("B", row{other}, "RELEASE_LOCK(?)")
				b.Evidence(lab.Answer, 1, "got-the-lock")
				return lab.Safe.Seen()
			}
			by := b.Int("mysql", row{other}, "SELECT IS_USED_LOCK(?)", name)
			state := b.Int("mysql", row{other},
				"SELECT COUNT(*) FROM information_schema.processlist WHERE id = ? AND command = 'Sleep'", by)
			b.Evidence(lab.Served, by, "held-by-idle-connection", "connection", by, "asleep", state)
			return lab.Blocks.Seen()
		},
	}
}

// row gives a session the QueryRow method of a pool.
type row struct{ *session }

func (r row) QueryRow(query string, args ...any) *sql.Row {
	return r.QueryRowContext(r.b.Ctx, query, args...)
}

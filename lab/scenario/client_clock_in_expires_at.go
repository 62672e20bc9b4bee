package scenario

import (
	"time"

	"example.com/stock/lab"
)

func clientClockInTable() lab.Scenario {
	return lab.Scenario{
		Name: "client-clock-in-expires-at", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			{Code: "naive", Variant: "the-clients-clock", Want: lab.Forecast{Outcome: lab.Oversells}},
			{Code: "fixed", Variant: "the-servers-clock", Want: lab.Forecast{Outcome: lab.Safe}},
		},
		Run: func(b *lab.Testbed) lab.Observation {
			const lease, ahead = 30 * time.Second, 31 * time.Second
			db := b.DB()
			b.Exec("mysql", db, "CREATE TABLE locks (name VARCHAR(64) PRIMARY KEY, owner VARCHAR(64) NOT NULL,"+
				" expires_at DATETIME(3) NOT NULL) ENGINE=InnoDB")
			b.Exec("mysql", db, "INSERT INTO locks VALUES ('sku', '', '2000-01-01')")
			// take runs one statement for both codes. Only the current time differs: a value from the client, or the
			// server's clock.
			take := func(s *session, clock func() time.Time) bool {
				now, args := "?", []any{s.who, clock().UTC(), lease.Microseconds(), clock().UTC()}
				if b.Case.Code == "fixed" {
					now, args = "UTC_TIMESTAMP(3)", []any{s.who, lease.Microseconds()}
				}
				result, err := s.ExecContext(b.Ctx, "UPDATE locks SET owner = ?, expires_at = "+now+
					" + INTERVAL ? MICROSECOND WHERE name = 'sku' AND expires_at <= "+now, args...)
				b.Must(s.who+": take", err)
				n, err := result.RowsAffected()
				b.Must(s.who+": take", err)
				return n > 0
			}
			a, other := newSession(b, db, "A"), newSession(b, db, "B")
			b.Require(take(a, time.Now), "A gets the lock")
			b.Note("A", "locked", "key", "sku")
			left := b.Int("mysql", db,
				"SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) DIV 1000 FROM locks")
			b.Evidence(lab.Served, left, "lease-left", "left", time.Duration(left)*time.Millisecond)
			b.Note("B", "clock-is-ahead", "ahead", ahead)
			if take(other, func() time.Time { return time.Now().Add(ahead) }) {
				b.Note("B", "locked", "key", "sku")
				b.Evidence(lab.Hold, nil, "takes-a-live-lease")
				return bothSell(b, "A", "B")
			}
			b.Evidence(lab.Answer, nil, "second-is-kept-out")
			return lab.Safe.Seen()
		},
	}
}

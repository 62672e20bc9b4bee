package scenario

import (
	"database/sql"
	"fmt"
	"slices"

	"example.com/stock/lab"
)

func transactionIsNoLock() lab.Scenario {
	return lab.Scenario{
		Name: "transaction-is-no-lock", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			[]lab.Case{
				{Code: "naive", Variant: "read-committed", Want: lab.Forecast{Outcome: lab.Oversells}},
				{Code: "naive", Variant: "repeatable-read", Want: lab.Forecast{Outcome: lab.Oversells}},
				{Code: "fixed", Variant: "for-update", Want: lab.Forecast{Outcome: lab.Safe}},
			},
			lab.Cases("", "pessimistic", "atomic", "merged")),
		Predict: excludes,
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Strategy != "" {
				apps := b.Apps(2)
				return twoBuyers(b, apps[0], apps[1])
			}
			level := sql.LevelRepeatableRead
			if b.Case.Variant == "read-committed" {
				level = sql.LevelReadCommitted
			}
			shop := newNaiveShop(b, 1)
			a, other := shop.begin("A", level), shop.begin("B", level)
			if b.Case.Variant != "for-update" {
				a.read("")
				other.read("")
				a.write()
				a.commit()
				other.write()
				other.commit()
				return shop.verdict()
			}
			a.read("FOR UPDATE")
			err := other.tryRead("FOR UPDATE NOWAIT")
			b.Require(errno(err) == errLockWait || errno(err) == errNoWait, "B is kept out while A works")
			a.write()
			a.commit()
			other.read("FOR UPDATE")
			other.write()
			other.commit()
			return shop.verdict()
		},
	}
}

// tryRead is read, but returns the server's error.
func (s *naiveSale) tryRead(locking string) error {
	err := s.tx.QueryRow("SELECT quantity FROM stock WHERE sku = 'sku' " + locking).Scan(&s.seen)
	s.shop.b.Statement(s.who, fmt.Sprintf("SELECT ... %s: error %d", locking, errno(err)))
	return err
}

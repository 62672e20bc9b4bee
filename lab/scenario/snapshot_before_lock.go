package scenario

import (
	"database/sql"

	"example.com/stock/lab"
)

func snapshotBeforeLock() lab.Scenario {
	return lab.Scenario{
		Name: "snapshot-before-lock", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			{Code: "naive", Variant: "begin-then-lock", Want: lab.Forecast{Outcome: lab.Oversells}},
			{Code: "fixed", Variant: "lock-then-begin", Want: lab.Forecast{Outcome: lab.Safe}},
			{Code: "fixed", Variant: "begin-lock-then-for-update", Want: lab.Forecast{Outcome: lab.Safe}},
		},
		Run: func(b *lab.Testbed) lab.Observation {
			shop := newNaiveShop(b, 1)
			early := b.Case.Variant != "lock-then-begin"
			locking := ""
			if b.Case.Variant == "begin-lock-then-for-update" {
				locking = "FOR UPDATE"
			}
			var late *naiveSale
			begin := func() { late = shop.begin("B", sql.LevelRepeatableRead) }
			if early {
				begin()
				b.Int("B", late.tx, "SELECT COUNT(*) FROM orders")
			}
			under(b, "A", func() {
				first := shop.begin("A", sql.LevelRepeatableRead)
				first.read("")
				first.write()
				first.commit()
			})
			under(b, "B", func() {
				if !early {
					begin()
				}
				late.read(locking)
				late.write()
				late.commit()
			})
			return shop.verdict()
		},
	}
}

// under calls work under a correct lock, which must be free.
func under(b *lab.Testbed, who string, work func()) {
	l := newNaiveLock(b, who, longLease)
	l.mustTake()
	work()
	l.gives()
}

package scenario

import (
	"database/sql"

	"example.com/stock/lab"
)

func unlockBeforeCommit() lab.Scenario {
	return lab.Scenario{
		Name: "unlock-before-commit", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			{Code: "naive", Variant: "unlock-then-commit", Want: lab.Forecast{Outcome: lab.Oversells}},
			{Code: "fixed", Variant: "commit-then-unlock", Want: lab.Forecast{Outcome: lab.Safe}},
		},
		Run: func(b *lab.Testbed) lab.Observation {
			shop := newNaiveShop(b, 1)
			first, second := newNaiveLock(b, "A", longLease), newNaiveLock(b, "B", longLease)
			first.mustTake()
			a := shop.begin("A", sql.LevelDefault)
			a.read("")
			a.write()
			if b.Case.Code == "fixed" {
				a.commit()
			}
			first.gives()
			second.mustTake()
			next := shop.begin("B", sql.LevelDefault)
			next.read("")
			if b.Case.Code == "naive" {
				a.commit()
			}
			next.write()
			next.commit()
			second.gives()
			return shop.verdict()
		},
	}
}

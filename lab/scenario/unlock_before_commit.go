package scenario

import (
	"database/sql"
	"fmt"

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
			first := newNaiveLock(b.Redis(), b.SKU, 2*lab.Patience)
			second := newNaiveLock(b.Redis(), b.SKU, 2*lab.Patience)
			locked := func(who string, l *naiveLock) bool {
				ok, err := l.try(b.Ctx)
				b.Must(who+": lock", err)
				b.Statement(who, fmt.Sprintf("SET NX: %t", ok))
				return ok
			}
			unlocked := func(who string, l *naiveLock) {
				b.Must(who+": unlock", l.unlock(b.Ctx))
				b.Event(unlockOf(who), "unlock")
			}
			b.Require(locked("A", first), "A gets the lock")
			a := shop.begin("A", sql.LevelDefault)
			a.read("")
			a.write()
			if b.Case.Code == "fixed" {
				a.commit()
				unlocked("A", first)
			} else {
				unlocked("A", first)
			}
			b.Require(locked("B", second), "B gets the lock")
			next := shop.begin("B", sql.LevelDefault)
			next.read("")
			if b.Case.Code == "naive" {
				a.commit()
			}
			next.write()
			next.commit()
			unlocked("B", second)
			return shop.verdict()
		},
	}
}

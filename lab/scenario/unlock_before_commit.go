package scenario

import "example.com/stock/lab"

func unlockBeforeCommit() lab.Scenario {
	return lab.Scenario{
		Name: "unlock-before-commit", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "unlock-then-commit"),
			byHand("fixed", lab.Safe, "commit-then-unlock"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			shop := newNaiveShop(b, 1)
			first, second := newNaiveLock(b, "A", longLease), newNaiveLock(b, "B", longLease)
			first.mustTake()
			a := shop.begin("A", "")
			a.read("")
			a.write()
			if b.Case.Code == "fixed" {
				a.commit()
			}
			first.gives()
			second.mustTake()
			next := shop.begin("B", "")
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

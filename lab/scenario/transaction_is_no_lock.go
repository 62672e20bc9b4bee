package scenario

import "example.com/stock/lab"

func transactionIsNoLock() lab.Scenario {
	return lab.Scenario{
		Name: "transaction-is-no-lock", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "read-committed"),
			byHand("naive", lab.Oversells, "repeatable-read"),
			byHand("fixed", lab.Safe, "for-update"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			level := "" // REPEATABLE READ
			if b.Case.Variant == "read-committed" {
				level = "READ COMMITTED"
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
			err := other.tryRead(b.Ctx, "FOR UPDATE NOWAIT")
			b.Require(lockIsHeld(err), "B is kept out while A works")
			a.write()
			a.commit()
			other.read("FOR UPDATE")
			other.write()
			other.commit()
			return shop.verdict()
		},
	}
}

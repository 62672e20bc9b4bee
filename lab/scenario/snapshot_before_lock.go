package scenario

import "example.com/stock/lab"

func snapshotBeforeLock() lab.Scenario {
	return lab.Scenario{
		Name: "snapshot-before-lock", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "begin-then-lock"),
			byHand("fixed", lab.Safe, "lock-then-begin"),
			byHand("fixed", lab.Safe, "begin-lock-then-for-update"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			shop := newNaiveShop(b, 1)
			early := b.Case.Variant != "lock-then-begin"
			locking := ""
			if b.Case.Variant == "begin-lock-then-for-update" {
				locking = "FOR UPDATE"
			}
			var late *naiveSale
			begin := func() { late = shop.begin("B", "") }
			if early {
				begin()
				late.count("SELECT COUNT(*) FROM orders")
			}
			under(b, "A", func() {
				first := shop.begin("A", "")
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

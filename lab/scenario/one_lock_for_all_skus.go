package scenario

import (
	"fmt"

	"example.com/stock/lab"
)

func oneLockForAll() lab.Scenario {
	return lab.Scenario{
		Name: "one-lock-for-all-skus", Group: lab.Fairness,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Busy, "one-key"),
			byHand("fixed", lab.Safe, "a-key-for-each-sku"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			const skus = 20
			refused := 0
			for i := range skus { // the first sale is slow: nobody releases
				l := newNaiveLock(b, fmt.Sprintf("C%d", i+1), lab.Patience)
				if b.Case.Code == "fixed" {
					l.key += fmt.Sprintf(":%d", i)
				}
				if !l.takes() {
					refused++
				}
			}
			b.Evidence(lab.Served, refused, "refused-for-another-sku", "refused", refused, "others", skus-1)
			if refused > 0 {
				return lab.Busy
			}
			return lab.Safe
		},
	}
}

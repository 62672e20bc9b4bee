package scenario

import (
	"time"

	"example.com/stock/lab"
)

func leaseInSeconds() lab.Scenario {
	return lab.Scenario{
		Name: "lease-in-whole-seconds", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "ex-rounded-down"),
			byHand("naive", lab.Refuses, "ex-rounded-down-to-0"),
			byHand("naive", lab.Delays, "ex-rounded-up"),
			byHand("fixed", lab.Safe, "px"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			switch b.Case.Variant {
			case "ex-rounded-down-to-0":
				_, err := setFor(b, "A", "EX", int64(400*time.Millisecond/time.Second))
				b.Require(err != nil, "Redis refuses an expiry of 0")
				b.Evidence(lab.Answer, nil, "was-told", "who", "A", "answer", err)
				return lab.Refuses
			case "ex-rounded-up":
				return roundedUp(b)
			}
			const lease = 1900 * time.Millisecond
			unit, n := "EX", int64(lease/time.Second)
			if b.Case.Code == "fixed" {
				unit, n = "PX", lease.Milliseconds()
			}
			// On a busy computer the lease may be over before the next line: then it begins again.
			let := false
			b.Eventually("A is seen within its lease", func() bool {
				b.Must("DEL", b.Redis().Del(b.Ctx, b.SKU).Err())
				began := time.Now()
				ok, err := setFor(b, "A", unit, n)
				b.Must("SET", err)
				b.Require(ok, "A gets the lock")
				left, err := b.Redis().PTTL(b.Ctx, b.SKU).Result()
				b.Must("PTTL", err)
				if b.Case.Code == "fixed" {
					return left > time.Second
				}
				for !let && time.Since(began) < lease {
					let, err = setFor(b, "B", "PX", lab.Patience.Milliseconds())
					b.Must("SET", err)
					time.Sleep(10 * time.Millisecond)
				}
				return let && time.Since(began) < lease
			})
			b.Evidence(lab.Hold, nil, "lease-and-second-holder", "lease", lease, "let", let)
			if let {
				return bothSell(b, "A", "B")
			}
			return lab.Safe
		},
	}
}

// roundedUp makes a holder with a lease of 200 ms die.
func roundedUp(b *lab.Testbed) lab.Outcome {
	const lease = 200 * time.Millisecond
	from := time.Now()
	ok, err := setFor(b, "A", "EX", 1)
	b.Must("SET", err)
	b.Require(ok, "A gets the lock")
	return diesWithALongKey(b, from, lease, 4*lease)
}

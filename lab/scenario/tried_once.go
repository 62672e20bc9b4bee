package scenario

import (
	"fmt"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// triedOnce sends 30 requests that try the lock once. How many of them sell depends on how long each holds the lock,
// and these are the two ends.
func triedOnce() lab.Scenario {
	return lab.Scenario{
		Name: "tried-once", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: slices.Concat(
			lab.Stated(lab.Busy, "the-first-is-slow", "redis-setnx"),
			lab.Stated(lab.Safe, "each-ends-before-the-next", "redis-setnx"),
			lab.Stated(lab.Safe, "the-first-is-slow-the-others-wait", "redis-setnx"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			const requests, units = 30, 100
			apps := b.Apps(2)
			b.Stock(units)
			slow, wait := b.Case.Variant != "each-ends-before-the-next", lab.Once()
			if b.Case.Variant == "the-first-is-slow-the-others-wait" {
				wait = lab.For(lab.Patience)
			}
			sold := 0
			answered := func(c *lab.Call) {
				if c.Reply().Outcome == loadtest.Accepted {
					sold++
				}
			}
			var first *lab.Call
			if slow {
				first = b.BeginPaused(apps[0], "C1", lab.BeforeWrite, lab.Request{})
			} else {
				answered(b.Begin(apps[0], "C1", lab.Request{Wait: wait}))
			}
			var waiting []*lab.Call
			for i := 1; i < requests; i++ {
				c := b.Begin(apps[i%2], fmt.Sprintf("C%d", i+1), lab.Request{Wait: wait})
				if *wait > 0 {
					waiting = append(waiting, c)
				} else {
					answered(c)
				}
			}
			if slow {
				answered(first.Go())
			}
			for _, c := range waiting {
				answered(c)
			}
			b.Require(!b.Judge().Lost(), "nothing is lost")
			b.Evidence(lab.Served, sold, "sold-of-requests", "requests", requests, "sold", sold, "left", units-sold)
			if sold < requests {
				return lab.Busy
			}
			return lab.Safe
		},
	}
}

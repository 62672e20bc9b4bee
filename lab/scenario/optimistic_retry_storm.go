package scenario

import (
	"fmt"
	"slices"

	"example.com/stock/lab"
)

func retryStorm() lab.Scenario {
	const buyers = 24
	return lab.Scenario{
		Name: "optimistic-retry-storm", Group: lab.MySQL,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: slices.Concat(
			onBoth(lab.Repeats, "", "optimistic"),
			on("redis", lab.Stated(lab.Safe, "", "atomic")),
			onBoth(lab.Safe, "", "merged"),
		),
		Run: func(b *lab.Testbed) lab.Outcome {
			apps := b.Apps(2)
			b.Stock(buyers)
			at := lab.BeforeWrite
			if b.Case.Strategy != "optimistic" {
				at = lab.AfterLock
			}
			for i := range buyers {
				b.Begin(apps[i%2], fmt.Sprintf("B%d", i+1), lab.Request{Pause: []string{at}})
			}
			for _, c := range b.Calls() {
				c.Paused(at)
			}
			for _, c := range b.Calls() {
				c.Go()
			}
			tries, again := 0, 0
			for _, c := range b.Calls() {
				reply := c.Reply()
				b.Require(reply.Receipt != nil, c.Who+" is served")
				tries += max(reply.Tries, 1)
				if reply.Tries > 1 {
					again++
				}
			}
			b.Evidence(lab.Served, tries, "tries", "sales", buyers, "tries", tries, "again", again, "buyers", buyers)
			b.Require(!b.Judge().Lost(), "nothing is lost")
			if again >= buyers-1 {
				return lab.Repeats
			}
			return lab.Safe
		},
	}
}

package scenario

import (
	"fmt"
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// Each contender works for fourWork once it has the lock, and waits for it at most for fourWait.
const (
	fourWork = 3 * time.Second
	fourWait = 10 * time.Second
)

func fourContenders() lab.Scenario {
	cases := lab.Stated(lab.Delays, "", "redis-watchdog", "redis-rlock", "zk-sequential")
	for i := range cases {
		cases[i].Want.Within = fourWait
	}
	return lab.Scenario{
		Name: "four-contenders", Group: lab.Fairness,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Slow:  true,
		Cases: cases,
		Together: func(beds []*lab.Testbed) []lab.Outcome {
			for _, b := range beds { // the cases run at once: they share no lock
				comeInTurn(b)
			}
			return lab.Each(beds, servedInTurn)
		},
	}
}

// comeInTurn sends five requests for one lock, each to its own instance and each when the previous one is seen to wait.
// Four of them work for 3 s each, which is longer than the fifth can wait.
func comeInTurn(b *lab.Testbed) {
	const contenders = 5
	come := func(i int, app *lab.App) {
		b.Begin(app, string(rune('A'+i)), lab.Request{Wait: lab.For(fourWait), Hold: fourWork})
	}
	b.Stock(contenders)
	if b.Case.Strategy == "redis-rlock" { // it has no list of waiters
		p := b.Proxy(lab.NeedRedis)
		for i, app := range b.Apps(contenders, b.Via(lab.NeedRedis)) {
			seenAsking(b, p, func() { come(i, app) })
		}
		return
	}
	apps := b.Apps(contenders)
	b.Watch(apps[0])
	for i, app := range apps {
		come(i, app)
		b.Eventually(fmt.Sprintf("%d have come", i+1), func() bool {
			return b.Waiting(apps[0])+b.Holding(apps[0]) == i+1
		})
	}
}

// servedInTurn records who got the lock when, and who gave up.
func servedInTurn(b *lab.Testbed) lab.Outcome {
	var served []*lab.Call
	var gaveUp *lab.Call
	for _, c := range b.Calls() {
		switch r := c.Reply(); {
		case r.Outcome == loadtest.Accepted:
			served = append(served, c)
		default:
			b.Require(r.Problem == "lock_timeout" && gaveUp == nil, "one gives up, because of its wait")
			gaveUp = c
		}
	}
	b.Require(gaveUp != nil, "one gives up")
	waited := func(c *lab.Call) time.Duration { // whole seconds: only the order matters
		return c.Record().AcquiredAt.Sub(c.Record().SentAt).Round(time.Second)
	}
	slices.SortFunc(served, func(x, y *lab.Call) int {
		return x.Record().AcquiredAt.Compare(y.Record().AcquiredAt)
	})
	var order string
	for _, c := range served {
		order += c.Who
		b.Evidence(lab.Waited, waited(c), "had-its-turn", "who", c.Who, "waited", waited(c))
	}
	b.Evidence(lab.Waited, gaveUp.Took(), "gave-up-after", "who", gaveUp.Who,
		"waited", gaveUp.Took().Round(time.Second))
	if b.Promise.Fair {
		b.Require(order == "ABCD", "they are served in the order in which they came")
	}
	b.Require(!b.Judge().Lost(), "nothing is lost")
	return b.Delayed(gaveUp.Took())
}

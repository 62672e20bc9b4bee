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
		Together: func(beds []*lab.Testbed) []lab.Observation {
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
	apps := b.Apps(contenders)
	b.Stock(contenders)
	b.Watch(apps[0])
	for i := range contenders {
		b.Begin(apps[i], string(rune('A'+i)), lab.Request{Wait: lab.For(fourWait), Hold: fourWork})
		b.Eventually(fmt.Sprintf("%d have come", i+1), func() bool { return haveCome(b, apps[0]) == i+1 })
	}
}

// haveCome returns the number of holders and visible waiters of the lock.
func haveCome(b *lab.Testbed, through *lab.App) int {
	if b.Case.Strategy != "redis-rlock" {
		return b.Waiting(through) + b.Holding(through)
	}
	// An RLock has no list of waiters, but each waiter subscribes to its channel.
	key := lockKey(b.Case.Strategy, b.SKU)
	holds, err := b.Redis().Exists(b.Ctx, key).Result()
	b.Must("EXISTS", err)
	return int(holds + b.Redis().PubSubNumSub(b.Ctx, key+":free").Val()[key+":free"])
}

// servedInTurn records who got the lock when, and who gave up.
func servedInTurn(b *lab.Testbed) lab.Observation {
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
	return lab.Delayed(gaveUp.Took())
}

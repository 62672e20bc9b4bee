package scenario

import (
	"cmp"
	"fmt"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

func starvation() lab.Scenario {
	const late = 10
	return lab.Scenario{
		Name:  "starvation-under-spinning",
		Group: lab.Fairness,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			[]lab.Case{byHand("naive", lab.Starves, "spins")},
			lab.Cases("", "redis-rlock", "redis-watchdog", "zk-sequential"),
		),
		Predict: func(_ lab.Case, p lab.StrategyPromise) lab.Forecast {
			if p.Fair {
				return lab.Forecast{Outcome: lab.Safe, From: "fair"}
			}
			return lab.Forecast{Outcome: lab.Starves, From: "fair: false"}
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			switch {
			case b.Case.Code == "naive":
				return spin(b, late)
			case b.Promise.Fair:
				return queue(b)
			default:
				return overtaken(b)
			}
		},
	}
}

// spin makes each of B's tries come while the lock is held, which a spinning lock allows.
func spin(b *lab.Testbed, late int) lab.Outcome {
	holder, first := newNaiveLock(b, "A", longLease), newNaiveLock(b, "B", longLease)
	holder.mustTake()
	b.Require(!first.takes(), "B is kept out")
	served := 0
	for i := range late {
		holder.gives()
		holder = newNaiveLock(b, fmt.Sprintf("C%d", i+1), longLease)
		holder.mustTake()
		if first.takes() {
			break
		}
		served++
	}
	b.Evidence(lab.Waited, served, "latecomers-were-served", "served", served)
	if served == late {
		return lab.Starves
	}
	return lab.Safe
}

// overtaken makes B wait for a lock that wakes it with a message. Each time, B's next try is held back, as by a slow
// link, until a newcomer has the lock.
func overtaken(b *lab.Testbed) lab.Outcome {
	const newcomers = 3
	p := b.Proxy(lab.NeedRedis)
	first, second := b.Apps(1)[0], b.Apps(1, b.Via(lab.NeedRedis))[0]
	b.Stock(newcomers + 2)
	b.Watch(first)
	inside := b.BeginPaused(first, "A", lab.BeforeWrite, lab.Request{})
	var waiting *lab.Call
	seenAsking(b, p, func() { waiting = b.Begin(second, "B", lab.Request{Wait: lab.For(lab.Patience)}) })
	key := lockKey(b.Case.Strategy, b.SKU)
	served := 0
	for i := range newcomers {
		held := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: wire.Contains(key)})
		inside.Go().Reply()
		b.Sprung(held, "question-is-held-back")
		inside = b.BeginPaused(first, fmt.Sprintf("C%d", i+1), lab.BeforeWrite, lab.Request{})
		held.Release()
		if !waiting.Answered() {
			served++
		}
	}
	inside.Go().Reply()
	b.Require(waiting.Reply().Outcome == loadtest.Accepted, "B is served at last")
	b.Require(!b.Judge().Lost(), "nothing is lost")
	b.Evidence(lab.Waited, served, "latecomers-were-served", "served", served)
	b.Evidence(lab.Served, waiting.Reply().Wakeups, "was-woken", "times", waiting.Reply().Wakeups)
	if served == newcomers {
		return lab.Starves
	}
	return lab.Safe
}

// queue makes five customers wait, each on its own instance, so that the server decides their order. Each is seen
// waiting before the next one begins.
func queue(b *lab.Testbed) lab.Outcome {
	const waiters = 5
	apps := b.Apps(waiters + 1)
	b.Stock(waiters + 1)
	b.Watch(apps[0])
	a := b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{})
	for i := range waiters {
		b.Begin(apps[i+1], fmt.Sprintf("B%d", i+1), lab.Request{Wait: lab.For(lab.Patience)})
		b.Eventually(fmt.Sprintf("%d are waiting", i+1), func() bool { return b.Waiting(apps[0]) == i+1 })
	}
	a.Go().Reply()
	var sales []*lab.Call
	for _, c := range b.Calls()[1:] {
		b.Require(c.Reply().Outcome == loadtest.Accepted, c.Who+" is served")
		sales = append(sales, c)
	}
	b.Judge()
	slices.SortFunc(sales, func(x, y *lab.Call) int { return cmp.Compare(x.Record().Version, y.Record().Version) })
	var order []string
	for _, c := range sales {
		order = append(order, c.Who)
	}
	b.Evidence(lab.Waited, order, "served-in-order", "order", order)
	if slices.IsSorted(order) {
		return lab.Safe
	}
	return lab.Starves
}

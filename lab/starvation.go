package lab

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"

	"example.com/stock/loadtest"
)

func starvation() Scenario {
	const late = 10
	return Scenario{
		Name: "starvation-under-spinning", Group: Fairness,
		Title: Text{"Who spins may starve, who queues may not", "自旋者可能饿死，排队者不会"},
		Setup: Text{"A lock that A holds. The naive lock is asked again and again; the fair ones keep a queue.", "A 持有锁。幼稚的锁靠反复询问；公平的锁有队列。"},
		Forced: Text{
			fmt.Sprintf("B comes first and looks while A holds. Then come %d others, one after the other: each time the lock is given back the next one asks before B looks again.", late),
			fmt.Sprintf("B 最先到，查看时 A 正持有。随后又来 %d 个人，一个接一个：每次锁被释放，都是后来者赶在 B 再次查看之前拿到。", late),
		},
		Why: Text{
			"A spinning waiter is not in any queue: it has the lock only if it looks in the right moment. The longer it pauses the longer it waits; the shorter, the more it costs everybody.",
			"自旋的等待者不在任何队列里：只有看得正是时候才能拿到锁。停顿越长等得越久，停顿越短对所有人代价越大。",
		},
		Fix: Text{
			"A queue on the server, first come, first served: ephemeral sequential nodes, or a list in Redis that the releaser grants from.",
			"在服务器上排队，先来先得：临时顺序节点，或由释放者按序授予的 Redis 队列。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper},
		Cases: concat([]Case{{Code: "naive", Variant: "spins", Want: Forecast{Outcome: Starves}}}, Cases("", "redis-watchdog", "zk-sequential")),
		Predict: func(_ Case, p Promise) Forecast {
			if p.Fair {
				return Forecast{Outcome: Safe, From: "fair"}
			}
			return Forecast{Outcome: Starves, From: "fair: false"}
		},
		Run: func(b *Bench) Observation {
			if b.Case.Code == "naive" {
				return spin(b, late)
			}
			return queue(b)
		},
	}
}

// spin has B look at the wrong moment each time, which is not forbidden to happen.
func spin(b *Bench, late int) Observation {
	holder := newNaiveLock(b.Redis(), b.SKU, 2*patience)
	first := newNaiveLock(b.Redis(), b.SKU, 2*patience)
	try := func(who string, l *naiveLock) bool {
		ok, err := l.try(b.Ctx)
		b.Must(who+": lock", err)
		b.Note(who, "SET NX: %t", ok)
		return ok
	}
	b.must(try("A", holder), "A gets the lock")
	b.must(!try("B", first), "B is kept out")
	served := 0
	for i := range late {
		b.Must("unlock", holder.unlock(b.Ctx))
		holder = newNaiveLock(b.Redis(), b.SKU, 2*patience)
		b.must(try(fmt.Sprintf("C%d", i+1), holder), "the latecomer gets the lock")
		if try("B", first) {
			break
		}
		served++
	}
	b.Evidence(Waited, served, "%d who came later were served, and B was not", served)
	if served == late {
		return Observation{Outcome: Starves}
	}
	return Observation{Outcome: Safe}
}

// queue has five wait, an instance each, so that it is the server that puts them in order, each seen waiting before the next one comes.
func queue(b *Bench) Observation {
	const waiters = 5
	apps := b.Apps(waiters + 1)
	b.Stock(waiters + 1)
	a := b.Begin(apps[0], "A", Ask{Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
	for i := range waiters {
		b.Begin(apps[i+1], fmt.Sprintf("B%d", i+1), Ask{Wait: For(patience)})
		b.Eventually(fmt.Sprintf("%d are waiting", i+1), func() bool { return b.waiting(apps[0]) == i+1 })
	}
	a.Go().Reply()
	var sales []*Call
	for _, c := range b.calls[1:] {
		b.must(c.Reply().Outcome == loadtest.Accepted, c.Who+" is served")
		sales = append(sales, c)
	}
	b.Judge()
	slices.SortFunc(sales, func(x, y *Call) int { return cmp.Compare(x.record.Version, y.record.Version) })
	var order []string
	for _, c := range sales {
		order = append(order, c.Who)
	}
	b.Evidence(Waited, order, "by the versions that they read they were served in the order %v", order)
	if slices.IsSorted(order) {
		return Observation{Outcome: Safe}
	}
	return Observation{Outcome: Starves}
}

// waiting is how many wait for the case's lock, as its server has it.
func (b *Bench) waiting(asked *App) int {
	var reply struct{ Waiters []struct{ Who string } }
	if err := asked.call(b.Ctx, http.MethodGet, "/v1/locks/"+b.Strategy.Name+"/"+b.SKU, &reply); err != nil {
		return -1
	}
	return len(reply.Waiters)
}

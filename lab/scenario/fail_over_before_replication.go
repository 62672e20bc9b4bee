package scenario

import (
	"fmt"
	"slices"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// The variants of a fail-over.
const (
	severed    = "not-replicated"
	severedOff = "not-replicated-ignores-the-loss"
	severedRaw = "not-replicated-ignores-the-loss-no-fence"
	refused    = "not-replicated-wait-1"
	replicated = "replicated-wait-1"
	oneOfFive  = "one-master-of-five-dies"
)

func failOver() lab.Scenario {
	return lab.Scenario{
		Name: "fail-over-before-replication", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL, lab.NeedRedlock},
		Cases: on("mysql", slices.Concat(
			lab.Cases(severed, "redis-watchdog"),
			lab.Cases(severedOff, "redis-setnx", "redis-watchdog"),
			lab.Cases(severedRaw, "redis-setnx", "redis-watchdog"),
			lab.Stated(lab.Refuses, refused, "redis-setnx", "redis-watchdog"),
			lab.Stated(lab.Safe, replicated, "redis-setnx", "redis-watchdog"),
			lab.Stated(lab.Safe, oneOfFive, "redlock"))),
		Predict: func(c lab.Case, p lab.StrategyPromise) lab.Forecast {
			c.Variant = map[string]string{severed: heedsLoss, severedOff: ignoresLoss, severedRaw: noFence}[c.Variant]
			return lateWriter(c, p)
		},
		Together: func(beds []*lab.Testbed) []lab.Observation {
			variants := make(map[string][]*lab.Testbed)
			for _, b := range beds {
				variants[b.Case.Variant] = append(variants[b.Case.Variant], b)
			}
			seen := make(map[*lab.Testbed]lab.Observation)
			keep := func(some []*lab.Testbed, outcomes []lab.Observation) {
				for i, b := range some {
					seen[b] = outcomes[i]
				}
			}
			late := append(append(variants[severed], variants[severedOff]...), variants[severedRaw]...)
			if len(late) > 0 {
				keep(late, killMaster(late, true))
			}
			if some := variants[refused]; len(some) > 0 {
				keep(some, unacknowledged(some))
			}
			if some := variants[replicated]; len(some) > 0 {
				keep(some, killMaster(some, false))
			}
			keep(variants[oneOfFive], lab.Each(variants[oneOfFive], minorityDies))
			return lab.Each(beds, func(b *lab.Testbed) lab.Observation { return seen[b] })
		},
	}
}

// sentinels starts a master with a replica, Sentinels that watch them, and two instances that find Redis through the
// Sentinels.
func sentinels(beds []*lab.Testbed, env ...string) (*server.Sentinels, []*lab.App) {
	x := startSentinels(beds[0], 1)
	var apps []*lab.App
	for _, b := range beds {
		apps = b.Apps(2, through(x, env...)...)
		b.Stock(1)
	}
	return x, apps
}

// killMaster kills the master while each A holds its lock. Then each B tries to lock on the new master. Keys that were
// not replicated are lost.
func killMaster(beds []*lab.Testbed, lost bool) []lab.Observation {
	first := beds[0]
	env := []string{"STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=15s"}
	if !lost {
		env = []string{
			"STOCK_LOCK_SETNX_LEASE=120s",
			"STOCK_LOCK_WATCHDOG_LEASE=120s",
			"STOCK_LOCK_REPLICAS=1",
		}
	}
	x, apps := sentinels(beds, env...)
	cut := time.Now()
	if lost {
		first.Must("sever the replica", x.Sever(first.Ctx))
	}
	for _, b := range beds {
		variant := map[string]string{severedOff: ignoresLoss, severedRaw: noFence}[b.Case.Variant]
		b.Begin(apps[0], "A", lateRequest(variant)).Paused(lab.BeforeWrite)
	}
	old, err := x.Master(first.Ctx)
	first.Must("find the master", err)
	for _, b := range beds {
		for _, server := range x.Redis {
			keysAbout(b, server)
		}
	}
	killed := time.Now()
	first.Must("kill the master", old.Kill())
	master, err := x.AwaitMaster(first.Ctx, old)
	first.Must("wait for the new master", err)
	for _, b := range beds {
		b.Defer(func() { b.Interval(old.Name, lab.Fault, "", killed, "node-is-killed") })
		if lost {
			b.Interval(master.Name, lab.Fault, "", cut, "replica-hears-nothing", "for", time.Since(cut))
		}
		b.Note(master.Name, "promoted", "server", master.Name)
		b.AwaitReady(apps)
	}
	return lab.Each(beds, func(b *lab.Testbed) lab.Observation {
		a := b.Calls()[0]
		if !lost {
			other := b.Sell(apps[1], "B", lab.Request{Wait: lab.Once()})
			b.Require(other.Outcome == loadtest.Busy, "B is kept out")
			b.Require(a.Go().Reply().Outcome == loadtest.Accepted, "A sells")
			b.Judge()
			return lab.Safe.Seen()
		}
		b.Require(b.Sell(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)}).Outcome == loadtest.Accepted,
			"B sells under the same lock")
		if b.Case.Variant != severed {
			a.Go()
		}
		return lateVerdict(b, a)
	})
}

// keysAbout records how many keys of the case a Redis has. They are those of its lock, because its stock is elsewhere.
func keysAbout(b *lab.Testbed, server *server.Server) {
	keys, err := b.RedisAt(server.Addr).Keys(b.Ctx, "*"+b.SKU+"*").Result()
	b.Must("KEYS on "+server.Name, err)
	b.Statement(server.Name, fmt.Sprintf("KEYS *sku* = %d", len(keys)))
}

// unacknowledged makes each A try a lock that no replica acknowledges.
func unacknowledged(beds []*lab.Testbed) []lab.Observation {
	x, apps := sentinels(beds, "STOCK_LOCK_REPLICAS=1", "STOCK_REDIS_TIMEOUT=1s")
	beds[0].Must("sever the replica", x.Sever(beds[0].Ctx))
	return lab.Each(beds, func(b *lab.Testbed) lab.Observation {
		reply := b.Sell(apps[0], "A", lab.Request{})
		b.Evidence(lab.Answer, reply.Problem, "was-told-why", "problem", reply.Problem,
			"error", loadtest.ErrorText(reply.Problem, reply.Error))
		b.Judge()
		b.Require(reply.Problem == "backend_down", "A is refused")
		return lab.Refuses.Seen()
	})
}

// minorityDies kills one of the five nodes that have A's key. The node stays down until the case ends.
func minorityDies(b *lab.Testbed) lab.Observation {
	apps := b.Apps(2, "STOCK_REDLOCK_LEASE=60s")
	b.Stock(1)
	nodes := newNodes(b)
	a := b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{})
	nodes.holders("nodes-with-a")
	b.Must("kill node 1", nodes.servers[0].Kill())
	b.Note(nodes.name(0), "first-node-is-killed")
	b.Defer(func() { _ = nodes.servers[0].Restart(b.Ctx) })
	other := b.Sell(apps[1], "B", lab.Request{Wait: lab.Once()})
	b.Require(other.Outcome == loadtest.Busy, "B is kept out by the other four")
	b.Require(a.Go().Reply().Outcome == loadtest.Accepted, "A sells")
	b.Judge()
	return lab.Safe.Seen()
}

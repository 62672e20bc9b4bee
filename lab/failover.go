package lab

import (
	"strings"

	"example.com/stock/loadtest"
	"example.com/stock/stack"
)

// The variants of a fail-over.
const (
	severed    = "not replicated"
	severedOff = "not replicated, " + deaf
	severedRaw = "not replicated, " + blind
	refused    = "not replicated, WAIT 1"
	replicated = "replicated, WAIT 1"
	oneOfFive  = "one master of five dies"
)

func failover() Scenario {
	return Scenario{
		Name: "fail-over-before-replication", Group: SetNX,
		Title: Text{"The master dies before it has replicated the lock", "主节点在复制锁之前宕机"},
		Setup: Text{
			"One unit in MariaDB; the lock in Redis: a master, a replica and three Sentinels. Replication is cut, or not; the lock asks for the acknowledgement of a replica (WAIT 1), or not. And Redlock, on five masters without replicas.",
			"MariaDB 里库存 1 件；锁在 Redis：一主一从三哨兵。复制链路断开或正常；加锁时要求副本确认（WAIT 1）或不要求。另有 Redlock：五个没有副本的主节点。",
		},
		Forced: Text{
			"A gets the lock on the master and stops before its write. The master is killed, the Sentinels promote the replica. B asks there. Then A goes on.",
			"A 在主节点上拿到锁，停在写入之前。主节点被杀，哨兵提升副本为主。B 在新主上请求锁；然后 A 继续。",
		},
		Why: Text{
			"Redis answers before its replicas have heard. What they have not heard dies with the master, and the new one gives the same lock again. Both holders are right by what they were told.",
			"Redis 先答复、后复制。副本没听到的，随主节点一起消失；新主会把同一把锁再发一次。两个持有者按各自得到的答复都没错。",
		},
		Fix: Text{
			"WAIT narrows it: a lock that no replica acknowledged is given back and refused. It is no consensus: with more replicas another one may be promoted. The fence closes it; Redlock survives the loss of a minority.",
			"WAIT 缩小窗口：没有副本确认的锁会被撤回并拒绝。但它不是共识：副本更多时，被提升的可能是另一个。栅栏令牌才能关闭它；Redlock 能承受少数节点丢失。",
		},
		Needs: []Need{NeedRedis, NeedMySQL, NeedRedlock},
		Cases: onMySQL(concat(
			Cases(severed, "redis-watchdog"),
			Cases(severedOff, "redis-setnx", "redis-watchdog"),
			Cases(severedRaw, "redis-setnx", "redis-watchdog"),
			stated(Refuses, refused, "redis-setnx", "redis-watchdog"),
			stated(Safe, replicated, "redis-setnx", "redis-watchdog"),
			stated(Safe, oneOfFive, "redlock"))),
		Predict: func(c Case, p Promise) Forecast {
			c.Variant = map[string]string{severed: told, severedOff: deaf, severedRaw: blind}[c.Variant]
			return lateWriter(c, p)
		},
		Together: func(benches []*Bench) []Observation {
			variants := make(map[string][]*Bench)
			for _, b := range benches {
				variants[b.Case.Variant] = append(variants[b.Case.Variant], b)
			}
			seen := make(map[*Bench]Observation)
			keep := func(some []*Bench, outcomes []Observation) {
				for i, b := range some {
					seen[b] = outcomes[i]
				}
			}
			late := append(append(variants[severed], variants[severedOff]...), variants[severedRaw]...)
			if len(late) > 0 {
				keep(late, failOver(late, true))
			}
			if some := variants[refused]; len(some) > 0 {
				keep(some, unacknowledged(some))
			}
			if some := variants[replicated]; len(some) > 0 {
				keep(some, failOver(some, false))
			}
			keep(variants[oneOfFive], each(variants[oneOfFive], minorityDies))
			return each(benches, func(b *Bench) Observation { return seen[b] })
		},
	}
}

func onMySQL(cases []Case) []Case {
	for i := range cases {
		cases[i].Store = "mysql"
	}
	return cases
}

// sentinels starts a master with a replica that is watched, and two instances that reach Redis through the Sentinels.
func sentinels(benches []*Bench, env ...string) (*stack.Sentinels, []*App) {
	first := benches[0]
	x, err := first.stand.stack.StartSentinels(first.Ctx, stack.SentinelOptions{Replicas: 1})
	first.Must("start the Sentinels", err)
	first.Defer(func() {
		for _, server := range append(x.Sentinels, x.Redis...) {
			_ = server.Kill()
		}
	})
	env = append(env, "STOCK_REDIS_ADDRS="+strings.Join(x.Addrs(), ","), "STOCK_REDIS_MASTER_NAME="+x.Name)
	var apps []*App
	for _, b := range benches {
		apps = b.Apps(2, env...)
		b.Stock(1)
	}
	return x, apps
}

// failOver kills the master while the As hold, and has the Bs ask the new one. What was not replicated is lost with it.
func failOver(benches []*Bench, lost bool) []Observation {
	first := benches[0]
	env := []string{"STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=15s"}
	if !lost {
		env = []string{"STOCK_LOCK_SETNX_LEASE=120s", "STOCK_LOCK_WATCHDOG_LEASE=120s", "STOCK_LOCK_REPLICAS=1", "STOCK_LOCK_REPLICA_TIMEOUT=5s"}
	}
	x, apps := sentinels(benches, env...)
	if lost {
		first.Must("sever the replica", x.Sever(first.Ctx))
	}
	for _, b := range benches {
		variant := map[string]string{severedOff: deaf, severedRaw: blind}[b.Case.Variant]
		b.Begin(apps[0], "A", lateAsk(variant)).Paused(BeforeWrite)
	}
	old, err := x.Master(first.Ctx)
	first.Must("find the master", err)
	first.Must("kill the master", old.Kill())
	master, err := x.AwaitMaster(first.Ctx, old)
	first.Must("wait for the new master", err)
	for _, b := range benches {
		b.Note("redis", "the master is killed; the Sentinels have promoted %s", master.Name)
		b.ready(apps)
	}
	return each(benches, func(b *Bench) Observation {
		a := b.calls[0]
		if !lost {
			other := b.Sell(apps[1], "B", Ask{Wait: Once()})
			b.must(other.Outcome == loadtest.Busy, "B is kept out")
			b.must(a.Go().Reply().Outcome == loadtest.Accepted, "A sells")
			b.Judge()
			return Observation{Outcome: Safe}
		}
		b.must(b.Sell(apps[1], "B", Ask{Wait: For(patience)}).Outcome == loadtest.Accepted, "B sells under the same lock")
		if b.Case.Variant != severed {
			a.Go()
		}
		return lateVerdict(b, a)
	})
}

// unacknowledged has the As ask for a lock that no replica hears of.
func unacknowledged(benches []*Bench) []Observation {
	x, apps := sentinels(benches, "STOCK_LOCK_REPLICAS=1")
	benches[0].Must("sever the replica", x.Sever(benches[0].Ctx))
	return each(benches, func(b *Bench) Observation {
		reply := b.Sell(apps[0], "A", Ask{})
		b.Evidence(Answer, reply.Problem, "A was told: %s: %s", reply.Problem, reply.Error)
		b.Judge()
		b.must(reply.Problem == "backend_down", "A is refused")
		return Observation{Outcome: Refuses}
	})
}

// minorityDies kills one of the five nodes that have A's key, for good as far as A and B can tell.
func minorityDies(b *Bench) Observation {
	apps := b.Apps(2, "STOCK_REDLOCK_LEASE=60s")
	b.Stock(1)
	nodes := b.nodes()
	a := b.Begin(apps[0], "A", Ask{Pause: []string{BeforeWrite}}).Paused(BeforeWrite)
	nodes.holders(Text{"when A has the lock", "A 持有锁时"})
	b.Must("kill node 1", nodes.servers[0].Kill())
	b.Note(nodes.name(0), "node 1 is killed")
	b.Defer(func() { _ = nodes.servers[0].Restart(b.Ctx) })
	other := b.Sell(apps[1], "B", Ask{Wait: Once()})
	b.must(other.Outcome == loadtest.Busy, "B is kept out by the other four")
	b.must(a.Go().Reply().Outcome == loadtest.Accepted, "A sells")
	b.Judge()
	return Observation{Outcome: Safe}
}

// ready waits until instances that were not touched say that their servers are up again.
func (b *Bench) ready(apps []*App) {
	for _, app := range apps {
		b.Must(app.Name, b.stand.ready(b.Ctx, app))
	}
}

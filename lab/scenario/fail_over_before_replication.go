package scenario

import (
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

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
	oneOfTwo   = "one-of-two-acknowledges"
)

func failOver() lab.Scenario {
	return lab.Scenario{
		Name: "fail-over-before-replication", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL, lab.NeedRedlock},
		Cases: on("mysql", slices.Concat(
			[]lab.Case{byHand("naive", lab.Oversells, oneOfTwo)},
			lab.Cases(severed, "redis-watchdog"),
			lab.Cases(severedOff, "redis-setnx", "redis-watchdog"),
			lab.Cases(severedRaw, "redis-setnx", "redis-watchdog"),
			lab.Stated(lab.Refuses, refused, "redis-setnx", "redis-watchdog"),
			lab.Stated(lab.Safe, replicated, "redis-setnx", "redis-watchdog"),
			lab.Stated(lab.Safe, oneOfFive, "redlock"))),
		Predict: lateWriter,
		Run:     acknowledgedInVain,
		Together: func(beds []*lab.Testbed) []lab.Outcome {
			seen := make(map[*lab.Testbed]lab.Outcome)
			force := func(fault func([]*lab.Testbed) []lab.Outcome, variants ...string) {
				some := slices.DeleteFunc(slices.Clone(beds), func(b *lab.Testbed) bool {
					return !slices.Contains(variants, b.Case.Variant)
				})
				if len(some) == 0 {
					return
				}
				for i, outcome := range fault(some) {
					seen[some[i]] = outcome
				}
			}
			force(loseKeys, severed, severedOff, severedRaw)
			force(unacknowledged, refused)
			force(keepKeys, replicated)
			force(minorityDies, oneOfFive)
			return lab.Each(beds, func(b *lab.Testbed) lab.Outcome { return seen[b] })
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

// loseKeys severs the replica, and kills the master while each A holds its lock. The new master does not have the keys,
// and each B gets its lock, too.
func loseKeys(beds []*lab.Testbed) []lab.Outcome {
	x, apps := sentinels(beds, "STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=15s")
	cut := time.Now()
	beds[0].Must("sever the replica", x.Sever(beds[0].Ctx))
	master := killMaster(beds, x, apps)
	return lab.Each(beds, func(b *lab.Testbed) lab.Outcome {
		b.Interval(master.Name, lab.Fault, "", cut, "replica-hears-nothing", "for", time.Since(cut))
		a := b.Calls()[0]
		b.Require(b.Sell(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)}).Outcome == loadtest.Accepted,
			"B sells under the same lock")
		if b.Case.Variant != severed {
			a.Go()
		}
		return lateVerdict(b, a)
	})
}

// keepKeys kills the master while each A holds a lock that the replica has acknowledged.
func keepKeys(beds []*lab.Testbed) []lab.Outcome {
	x, apps := sentinels(beds, "STOCK_LOCK_SETNX_LEASE=120s", "STOCK_LOCK_WATCHDOG_LEASE=120s",
		"STOCK_LOCK_REPLICAS=1")
	killMaster(beds, x, apps)
	return lab.Each(beds, func(b *lab.Testbed) lab.Outcome { return keptOut(b, apps[1]) })
}

// keptOut requires that B does not get the lock of A, who then sells.
func keptOut(b *lab.Testbed, second *lab.App) lab.Outcome {
	other := b.Sell(second, "B", lab.Request{Wait: lab.Once()})
	b.Require(other.Outcome == loadtest.Busy, "B is kept out")
	b.Require(b.Calls()[0].Go().Reply().Outcome == loadtest.Accepted, "A sells")
	b.Judge()
	return lab.Safe
}

// killMaster lets each A lock, kills the master, and returns the new one.
func killMaster(beds []*lab.Testbed, x *server.Sentinels, apps []*lab.App) *server.Server {
	first := beds[0]
	for _, b := range beds {
		b.Begin(apps[0], "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
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
		b.Note(master.Name, "promoted", "server", master.Name)
		b.AwaitReady(apps)
	}
	return master
}

// keysAbout records how many keys of the case a Redis has. They are those of its lock, because its stock is elsewhere.
func keysAbout(b *lab.Testbed, server *server.Server) {
	keys, err := b.RedisAt(server.Addr).Keys(b.Ctx, "*"+b.SKU+"*").Result()
	b.Must("KEYS on "+server.Name, err)
	b.Statement(server.Name, "", fmt.Sprintf("KEYS *sku* = %d", len(keys)))
}

// unacknowledged makes each A try a lock that no replica acknowledges.
func unacknowledged(beds []*lab.Testbed) []lab.Outcome {
	x, apps := sentinels(beds, "STOCK_LOCK_REPLICAS=1", "STOCK_REDIS_TIMEOUT=1s")
	beds[0].Must("sever the replica", x.Sever(beds[0].Ctx))
	return lab.Each(beds, func(b *lab.Testbed) lab.Outcome {
		reply := b.Sell(apps[0], "A", lab.Request{})
		b.Evidence(lab.Answer, reply.Problem, "was-told-why", "problem", reply.Problem,
			"error", loadtest.ErrorText(reply.Problem, reply.Error))
		b.Judge()
		b.Require(reply.Problem == "backend_down", "A is refused")
		return lab.Refuses
	})
}

// minorityDies kills one of the five nodes that have A's key. The node stays down until the case ends.
func minorityDies(beds []*lab.Testbed) []lab.Outcome {
	return lab.Each(beds, func(b *lab.Testbed) lab.Outcome {
		apps := b.Apps(2, "STOCK_REDLOCK_LEASE=60s")
		b.Stock(1)
		nodes := newNodes(b)
		b.BeginPaused(apps[0], "A", lab.BeforeWrite, lab.Request{})
		nodes.holders("nodes-with-a")
		nodes.kill(0)
		return keptOut(b, apps[1])
	})
}

// acknowledgedInVain cuts off one of two replicas. The other one acknowledges the lock of A, and dies with the master.
// The documentation of WAIT says that it is no consensus: https://redis.io/docs/latest/commands/wait/. Redisson's check
// of the replicas is content with one: https://github.com/redisson/redisson, CommandAsyncService.
func acknowledgedInVain(b *lab.Testbed) lab.Outcome {
	x := startSentinels(b, 2)
	master, near, far := x.Redis[0], x.Redis[1], x.Redis[2]
	severOne(b, master, far)
	b.Note(far.Name, "replica-is-cut-off", "master", master.Name)
	lockAndWait(b, master.Addr)
	b.Must("kill the replica that has acknowledged", near.Kill())
	b.Must("kill the master", master.Kill())
	b.Note(near.Name, "dies-with-its-master", "master", master.Name)
	promoted, err := x.AwaitMaster(b.Ctx, master)
	b.Must("wait for the new master", err)
	b.Require(promoted == far, "the replica that was cut off is promoted")
	b.Note(far.Name, "promoted", "server", far.Name)
	inside := newNaiveLockAt(b, "B", b.RedisAt(far.Addr), lab.Patience).takes()
	return bothHold(b, []bool{true, inside}, true, inside)
}

// severOne cuts one replica off from its master. It remains a replica and may be promoted.
func severOne(b *lab.Testbed, master, replica *server.Server) {
	// The master has no password and refuses a replica that gives one, so the link stays broken.
	b.Must("sever", b.RedisAt(replica.Addr).ConfigSet(b.Ctx, "masterauth", "severed").Err())
	c := b.RedisAt(master.Addr)
	b.Must("CLIENT KILL", c.ClientKillByFilter(b.Ctx, "TYPE", "replica").Err())
	b.Eventually("one replica follows", func() bool {
		role, err := c.Do(b.Ctx, "ROLE").Slice()
		b.Must("ROLE", err)
		b.Require(len(role) > 2, master.Name+" is a master")
		list, _ := role[2].([]any)
		return len(list) == 1
	})
}

// lockAndWait takes the lock of A by SET NX PX, and then WAIT for one replica.
func lockAndWait(b *lab.Testbed, addr string) {
	l := newNaiveLockAt(b, "A", b.RedisAt(addr), lab.Patience)
	var set *redis.BoolCmd
	var wait *redis.Cmd
	_, err := l.redis.Pipelined(b.Ctx, func(p redis.Pipeliner) error {
		set, wait = p.SetNX(b.Ctx, l.key, l.token, l.ttl), p.Do(b.Ctx, "WAIT", 1, 5000)
		return nil
	})
	b.Must("A: lock", err)
	b.Statement("A", "redis", fmt.Sprintf("SET NX: %t, WAIT 1: %v", set.Val(), wait.Val()))
	b.Require(set.Val() && wait.Val() == int64(1), "one replica has acknowledged the lock of A")
}

package scenario

import (
	"fmt"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// The variants of a lock that some replicas have acknowledged.
const (
	oneOfTwo        = "one-of-two-acknowledges"
	oneOfTwoIgnores = "one-of-two-acknowledges-ignores-the-loss"
	oneOfTwoRaw     = "one-of-two-acknowledges-ignores-the-loss-no-fence"
	bothOfTwo       = "both-are-asked-for"
)

// waitNoConsensus is known from the documentation of WAIT, which says so:
// https://redis.io/docs/latest/commands/wait/. Redisson's check of the replicas is content with one:
// https://github.com/redisson/redisson, CommandAsyncService.
func waitNoConsensus() lab.Scenario {
	return lab.Scenario{
		Name: "wait-is-no-consensus", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: on("mysql", slices.Concat(
			[]lab.Case{byHand("naive", lab.Oversells, oneOfTwo)},
			lab.Cases(oneOfTwo, "redis-watchdog"),
			lab.Cases(oneOfTwoIgnores, "redis-setnx", "redis-watchdog"),
			lab.Cases(oneOfTwoRaw, "redis-setnx", "redis-watchdog"),
			lab.Stated(lab.Refuses, bothOfTwo, "redis-setnx", "redis-watchdog"))),
		Predict: func(c lab.Case, p lab.StrategyPromise) lab.Forecast {
			c.Variant = acknowledged(c.Variant)
			return lateWriter(c, p)
		},
		Together: acknowledgedInVain,
	}
}

// acknowledged maps a variant to that of a late writer.
func acknowledged(variant string) string {
	return map[string]string{oneOfTwo: heedsLoss, oneOfTwoIgnores: ignoresLoss, oneOfTwoRaw: noFence}[variant]
}

// acknowledgedInVain severs the second replica, so that only the first acknowledges each A's lock. Then it kills the
// first with the master, and the second is promoted.
func acknowledgedInVain(beds []*lab.Testbed) []lab.Observation {
	first := beds[0]
	x := startSentinels(first, 2)
	master, near, far := x.Redis[0], x.Redis[1], x.Redis[2]
	apps := make(map[*lab.Testbed][]*lab.App)
	for _, b := range beds {
		env := []string{
			"STOCK_LOCK_SETNX_LEASE=60s", "STOCK_LOCK_WATCHDOG_LEASE=15s", "STOCK_LOCK_REPLICAS=1",
		}
		if b.Case.Variant == bothOfTwo {
			env = []string{"STOCK_LOCK_REPLICAS=2", "STOCK_REDIS_TIMEOUT=1s"}
		}
		if b.Case.Strategy != "" {
			apps[b] = b.Apps(2, through(x, env...)...)
			b.Stock(1)
		}
	}
	severOne(first, master, far)
	for _, b := range beds {
		b.Note(far.Name, "replica-is-cut-off", "master", master.Name)
		switch {
		case b.Case.Code != "":
			lockAndWait(b, master.Addr)
		case b.Case.Variant == bothOfTwo:
			reply := b.Sell(apps[b][0], "A", lab.Request{})
			b.Evidence(lab.Answer, reply.Problem, "was-told-why", "problem", reply.Problem,
				"error", loadtest.ErrorText(reply.Problem, reply.Error))
		default:
			b.Begin(apps[b][0], "A", lateRequest(acknowledged(b.Case.Variant))).Paused(lab.BeforeWrite)
		}
	}
	first.Must("kill the replica that has acknowledged", near.Kill())
	first.Must("kill the master", master.Kill())
	for _, b := range beds {
		b.Note(near.Name, "dies-with-its-master", "master", master.Name)
	}
	promoted, err := x.AwaitMaster(first.Ctx, master)
	first.Must("wait for the new master", err)
	first.Require(promoted == far, "the replica that was cut off is promoted")
	for _, b := range beds {
		b.Note(far.Name, "is-promoted")
	}
	follow(first, near, far) // B, too, needs a replica that acknowledges its lock
	for _, b := range beds {
		b.Note(near.Name, "comes-back-as-a-replica", "master", far.Name)
	}
	return lab.Each(beds, func(b *lab.Testbed) lab.Observation {
		switch {
		case b.Case.Code != "":
			return lockPromoted(b, far.Addr)
		case b.Case.Variant == bothOfTwo:
			b.Judge()
			b.Require(b.Calls()[0].Reply().Problem == "backend_down", "A is refused")
			return lab.Refuses.Seen()
		}
		b.AwaitReady(apps[b])
		a := b.Calls()[0]
		other := b.Sell(apps[b][1], "B", lab.Request{Wait: lab.For(lab.Patience)})
		b.Require(other.Outcome == loadtest.Accepted, "B sells under the same lock")
		if b.Case.Variant != oneOfTwo {
			a.Go()
		}
		return lateVerdict(b, a)
	})
}

// severOne cuts one replica off from its master. It remains a replica and may be promoted.
func severOne(b *lab.Testbed, master, replica *server.Server) {
	// The master has no password and refuses a replica that gives one, so the link stays broken.
	b.Must("sever", b.RedisAt(replica.Addr).ConfigSet(b.Ctx, "masterauth", "severed").Err())
	b.Must("CLIENT KILL", b.RedisAt(master.Addr).ClientKillByFilter(b.Ctx, "TYPE", "replica").Err())
	awaitReplica(b, master)
}

// follow restarts a server as a replica of the new master, as the Sentinels would do later. The server copies the
// master's data, and so loses the writes that it had acknowledged.
func follow(b *lab.Testbed, server, master *server.Server) {
	b.Must("restart "+server.Name, server.Restart(b.Ctx))
	host, port, err := net.SplitHostPort(master.Addr)
	b.Must("the address of "+master.Name, err)
	b.Must("REPLICAOF", b.RedisAt(server.Addr).Do(b.Ctx, "REPLICAOF", host, port).Err())
	awaitReplica(b, master)
}

// awaitReplica waits until one replica follows the master.
func awaitReplica(b *lab.Testbed, master *server.Server) {
	c := b.RedisAt(master.Addr)
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
	b.Statement("A", fmt.Sprintf("SET NX: %t, WAIT 1: %v", set.Val(), wait.Val()))
	b.Require(set.Val() && wait.Val() == int64(1), "one replica has acknowledged the lock of A")
}

// lockPromoted makes B ask for A's lock on the new master.
func lockPromoted(b *lab.Testbed, addr string) lab.Observation {
	ok := newNaiveLockAt(b, "B", b.RedisAt(addr), lab.Patience).takes()
	b.Evidence(lab.Hold, []bool{true, ok}, "both-hold", "a", true, "b", ok)
	if ok {
		return bothSell(b, "A", "B")
	}
	return lab.Safe.Seen()
}

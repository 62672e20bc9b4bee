package scenario

import (
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

func laggingReplica() lab.Scenario {
	return lab.Scenario{
		Name: "read-from-a-lagging-replica", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedRedlock},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "reads-the-replica"),
			byHand("fixed", lab.Safe, "reads-the-master"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			stock, orders := b.SKU+"-stock", b.SKU+"-orders"
			master := b.Redis()
			b.Must("SET", master.Set(b.Ctx, stock, 1, lab.Patience).Err())
			replica, link := replicate(b)
			b.Eventually("the replica has the stock", func() bool { return replica.Get(b.Ctx, stock).Val() == "1" })
			b.Note("replica", "has-the-stock", "quantity", 1)
			from := time.Now()
			link.Silence(wire.ToClient)
			sell := func(who string) (sold bool) {
				l := newNaiveLock(b, who, lab.Patience)
				l.mustTake()
				reader, server := replica, "replica"
				if b.Case.Code == "fixed" {
					reader, server = master, "redis"
				}
				n, err := reader.Get(b.Ctx, stock).Int()
				b.Must("GET", err)
				b.Event(readOf(who, server, n), "reads", "quantity", n)
				if n > 0 {
					b.Must("SET", master.Set(b.Ctx, stock, n-1, lab.Patience).Err())
					b.Must("RPUSH", master.RPush(b.Ctx, orders, n).Err())
					b.Event(writeOf(who, "redis", n-1), "writes", "quantity", n-1)
				}
				l.gives()
				return n > 0
			}
			b.Require(sell("A"), "A is served")
			second := sell("B")
			b.Interval("wire", lab.Fault, "", from, "replica-hears-nothing", "for", time.Since(from))
			read, err := master.LRange(b.Ctx, orders, 0, -1).Result()
			b.Must("LRANGE", err)
			b.Must("DEL", master.Del(b.Ctx, orders).Err())
			left, err := master.Get(b.Ctx, stock).Int()
			b.Must("GET", err)
			b.Evidence(lab.Balance, left, "balance", "initial", 1, "sold", len(read), "left", left)
			if second && read[0] == read[1] {
				b.Evidence(lab.Pair, read, "both-sold", "one", "A", "other", "B", "read", read[0])
				return lab.Oversells
			}
			return lab.Safe
		},
	}
}

// replicate makes an idle Redis, a node of Redlock, a replica of the first Redis, through a proxy, until the case ends.
func replicate(b *lab.Testbed) (replica *redis.Client, link *wire.Proxy) {
	link = b.ProxyTo(b.Server(lab.NeedRedis).Addr, wire.Protocol{})
	replica = newNodes(b).clients[4]
	// By default a master waits 5 s for further replicas before it begins to copy.
	const wait = "repl-diskless-sync-delay"
	usual, err := b.Redis().ConfigGet(b.Ctx, wait).Result()
	b.Must("CONFIG GET", err)
	b.Must("CONFIG SET", b.Redis().ConfigSet(b.Ctx, wait, "0").Err())
	b.Defer(func() {
		_ = b.Redis().ConfigSet(b.Ctx, wait, usual[wait]).Err()
		// Copied keys must not affect the locks of later scenarios.
		_ = replica.Do(b.Ctx, "REPLICAOF", "NO", "ONE").Err()
		_ = replica.FlushAll(b.Ctx).Err()
	})
	host, port, err := net.SplitHostPort(link.Addr())
	b.Must("address of the proxy", err)
	b.Must("REPLICAOF", replica.Do(b.Ctx, "REPLICAOF", host, port).Err())
	return replica, link
}

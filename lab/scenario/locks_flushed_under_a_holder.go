package scenario

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// The variants of a holder whose key is deleted: by FLUSHALL, by an eviction, or on one node of Redlock.
const (
	flushed        = "flushed"
	evicted        = "evicted"
	evictedDeaf    = "evicted-ignores-the-loss"
	oneNodeFlushed = "one-node-of-five-flushed"
)

// locksFlushed is known from caches. Which keys a full Redis evicts:
// https://redis.io/docs/latest/develop/reference/eviction/.
func locksFlushed() lab.Scenario {
	return lab.Scenario{
		Name: "locks-flushed-under-a-holder", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL, lab.NeedRedlock},
		Cases: on("mysql", slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Oversells, flushed),
				byHand("naive", lab.Oversells, evicted),
			},
			lab.Cases(heedsLoss, "redis-rlock", "redis-watchdog", "redlock"),
			lab.Cases(ignoresLoss, "redis-setnx-expire", "redis-setnx-del", "redis-setnx-watch", "redis-setnx",
				"redis-rlock", "redis-watchdog", "redlock"),
			lab.Cases(evictedDeaf, "redis-setnx", "redis-rlock", "redis-watchdog"),
			lab.Cases(noFence, "redis-setnx", "redis-watchdog"),
			lab.Stated(lab.Safe, oneNodeFlushed, "redlock"),
		)),
		Predict: lateWriter,
		Run: func(b *lab.Testbed) lab.Outcome {
			// Node 1 of Redlock has the locks, because other scenarios need the keys of the first Redis.
			nodes := newNodes(b)
			if b.Case.Code != "" {
				return flushedNaively(b, nodes.clients[0])
			}
			apps := b.Apps(2, "STOCK_REDIS_URL=redis://"+nodes.servers[0].Addr, "STOCK_LOCK_SETNX_LEASE=60s",
				"STOCK_LOCK_WATCHDOG_LEASE=9s", "STOCK_REDLOCK_LEASE=9s")
			b.Stock(1)
			a := b.Begin(apps[0], "A", lateRequest(b.Case.Variant)).Paused(lab.BeforeWrite)
			key := lockKey(b.Case.Strategy, b.SKU)
			switch {
			case b.Case.Variant == oneNodeFlushed:
				nodes.flush(1)
				other := b.Sell(apps[1], "B", lab.Request{Wait: lab.Once()})
				b.Require(a.Go().Reply().Outcome == loadtest.Accepted, "A sells")
				if j := b.Judge(); j.Lost() || other.Outcome != loadtest.Busy {
					return lab.Oversells
				}
				return lab.Safe
			case b.Case.Strategy == "redlock":
				nodes.flush(len(nodes.clients))
			case b.Case.Variant == evictedDeaf:
				evict(b, nodes.clients[0], key)
			default:
				nodes.flush(1)
			}
			other := b.Sell(apps[1], "B", lab.Request{Wait: lab.For(lab.Patience)})
			b.Require(other.Outcome == loadtest.Accepted, "B is let in, and sells")
			if b.Case.Variant != heedsLoss {
				a.Go()
			}
			return lateVerdict(b, a)
		},
	}
}

// flush deletes everything on the first few nodes.
func (n *nodes) flush(number int) {
	for i, c := range n.clients[:number] {
		flushAll(n.b, c)
		n.b.Statement(n.name(i), "", "FLUSHALL")
	}
}

// flushAll deletes everything in a Redis except the key by which instances recognise it. Without it they would
// report the server as down, and the next case would wait in vain.
func flushAll(b *lab.Testbed, c *redis.Client) {
	const key = "stock:origin"
	fields, err := c.HGetAll(b.Ctx, key).Result()
	b.Must("HGETALL", err)
	_, err = c.TxPipelined(b.Ctx, func(p redis.Pipeliner) error {
		p.FlushAll(b.Ctx)
		if len(fields) > 0 {
			p.HSet(b.Ctx, key, fields)
		}
		return nil
	})
	b.Must("FLUSHALL", err)
}

// evict fills a Redis with the policy volatile-lru, the default of some hosters, until key is gone: Redis evicts keys
// with an expiry that were not used for long. Then it empties the server.
func evict(b *lab.Testbed, c *redis.Client, key string) {
	set := func(name, value string) {
		b.Must("CONFIG SET", c.ConfigSet(b.Ctx, name, value).Err())
		b.Statement("redis", "", "CONFIG SET "+name+" "+value)
	}
	b.Defer(func() {
		_ = c.ConfigSet(b.Ctx, "maxmemory", "0").Err()
		_ = c.ConfigSet(b.Ctx, "maxmemory-policy", "noeviction").Err()
	})
	var used int64
	memory, err := c.Info(b.Ctx, "memory").Result()
	b.Must("INFO memory", err)
	for line := range strings.Lines(memory) {
		_, _ = fmt.Sscanf(line, "used_memory:%d", &used)
	}
	b.Require(used > 0, "Redis says how much memory it uses")
	set("maxmemory-policy", "volatile-lru")
	set("maxmemory", fmt.Sprint(used+1<<20))
	page, pages := strings.Repeat("x", 64<<10), 0
	b.Eventually("the key is evicted", func() bool {
		pages++
		b.Must("SET", c.Set(b.Ctx, fmt.Sprintf("page-%d", pages), page, 4*lab.Patience).Err())
		return c.Exists(b.Ctx, key).Val() == 0
	})
	b.Evidence(lab.Served, pages, "cache-took-its-place", "pages", pages, "key", key)
	set("maxmemory", "0")
	flushAll(b, c)
}

// flushedNaively deletes A's key while A works under a correct lock.
func flushedNaively(b *lab.Testbed, c *redis.Client) lab.Outcome {
	a, next := newNaiveLockAt(b, "A", c, longLease), newNaiveLockAt(b, "B", c, longLease)
	a.mustTake()
	if b.Case.Variant == evicted {
		evict(b, c, b.SKU)
	} else {
		flushAll(b, c)
		b.Statement("redis", "", "FLUSHALL")
	}
	inside := next.takes()
	b.Must("unlock", next.unlock(b.Ctx))
	return bothHold(b, []bool{true, inside}, true, inside)
}

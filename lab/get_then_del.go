package lab

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

func getThenDel() Scenario {
	return Scenario{
		Name: "get-then-del", Group: SetNX,
		Title:  Text{"GET, compare, DEL in three steps", "GET、比较、DEL 分三步走"},
		Setup:  Text{"Locks in Redis with a token of their own each. A's lease is 1 s, that of the others two minutes.", "Redis 锁，各有各的令牌。A 的租约为 1 秒，其他人的为 2 分钟。"},
		Forced: Text{"A asks whose key it is: its own. Before its DEL arrives the lease ends and B takes the lock. Then the DEL arrives, and C asks.", "A 先查键是谁的：是自己的。在它的 DEL 到达之前租约到期，B 拿到锁。随后 DEL 到达，C 来请求。"},
		Why: Text{
			"Between the look and the deed the world goes on. The check was right when it was made, and says nothing of the moment of the DEL.",
			"查看与动手之间，世界仍在前进。检查在当时是对的，却保证不了 DEL 那一刻。",
		},
		Fix: Text{
			"Compare and delete in one step: a script, or WATCH, GET, MULTI, DEL, EXEC, or DELEX ... IFEQ (Redis 8.4 and later).",
			"一步完成“比较后删除”：Lua 脚本，或 WATCH、GET、MULTI、DEL、EXEC，或 DELEX ... IFEQ（Redis 8.4 及以上）。",
		},
		Needs: []Need{NeedRedis},
		Cases: []Case{
			{Code: "naive", Variant: "GET, then DEL", Want: Forecast{Outcome: Oversells}},
			{Code: "mended", Variant: "one script", Want: Forecast{Outcome: Safe}},
		},
		Quick: true,
		Run: func(b *Bench) Observation {
			c := b.Redis()
			a := newNaiveLock(c, b.SKU, time.Second)
			second, third := newNaiveLock(c, b.SKU, 2*patience), newNaiveLock(c, b.SKU, 2*patience)
			enter := func(who string, l *naiveLock) bool {
				ok, err := l.try(b.Ctx)
				b.Must(who+": lock", err)
				b.Note(who, "SET NX: %t", ok)
				return ok
			}
			b.Eventually("A finds its own value", func() bool { // its lease may end before it looks
				b.Must("DEL", c.Del(b.Ctx, b.SKU).Err())
				b.must(enter("A", a), "A gets the lock")
				value, err := c.Get(b.Ctx, b.SKU).Result()
				if !errors.Is(err, redis.Nil) {
					b.Must("GET", err)
				}
				return value == a.token
			})
			b.Note("A", "GET: it is mine")
			b.Eventually("A's lease ends, and B gets the lock", func() bool { return enter("B", second) })
			if b.Case.Code == "naive" {
				b.Must("DEL", c.Del(b.Ctx, b.SKU).Err())
				b.Note("A", "DEL")
			} else {
				b.Must("unlock", a.unlock(b.Ctx))
				b.Note("A", "compare and delete")
			}
			b.TTL(b.SKU)
			if enter("C", third) {
				b.Evidence(Hold, nil, "C has the lock beside B, whose lease is two minutes long")
				return bothSell(b, "B", "C")
			}
			b.Evidence(Hold, nil, "B has the lock, and C is kept out")
			return Observation{Outcome: Safe}
		},
	}
}

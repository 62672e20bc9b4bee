package scenario

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
)

func getThenDel() lab.Scenario {
	return lab.Scenario{
		Name: "get-then-del", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "get-then-del"),
			byHand("fixed", lab.Safe, "one-script"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			c := b.Redis()
			a := newNaiveLock(b, "A", time.Second)
			second, third := newNaiveLock(b, "B", longLease), newNaiveLock(b, "C", longLease)
			b.Eventually("A finds its own value", func() bool { // its lease may end before the GET
				b.Must("DEL", c.Del(b.Ctx, b.SKU).Err())
				a.mustTake()
				value, err := c.Get(b.Ctx, b.SKU).Result()
				if !errors.Is(err, redis.Nil) {
					b.Must("GET", err)
				}
				return value == a.token
			})
			b.Note("A", "get-is-mine")
			b.Eventually("A's lease ends, and B gets the lock", second.takes)
			if b.Case.Code == "naive" {
				b.Must("DEL", c.Del(b.Ctx, b.SKU).Err())
				b.Statement("A", "redis", "DEL")
			} else {
				b.Must("unlock", a.unlock(b.Ctx))
				b.Note("A", "compare-and-delete")
			}
			b.TTL(b.SKU)
			if third.takes() {
				b.Evidence(lab.Hold, nil, "third-has-the-lock")
				return bothSell(b, "B", "C")
			}
			b.Evidence(lab.Hold, nil, "third-is-kept-out")
			return lab.Safe
		},
	}
}

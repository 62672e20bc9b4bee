package scenario

import (
	"errors"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/server"
)

// emptyUnits is how many units are in stock, and are sold, before the store is lost.
const emptyUnits = 3

func storeComesBackEmpty() lab.Scenario {
	return lab.Scenario{
		Name: "store-comes-back-empty", Group: lab.NoLock,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedMySQL},
		Cases: on("redis", slices.Concat(
			[]lab.Case{byHand("naive", lab.Oversells, "seeds-what-is-not-there")},
			lab.Stated(lab.Refuses, "", "atomic", "merged", "optimistic", "redis-watchdog"),
			lab.Stated(lab.Safe, "append-only-file", "atomic", "merged"))),
		Run: func(b *lab.Testbed) lab.Outcome {
			persistent := b.Case.Variant == "append-only-file"
			b.Fresh(server.Options{AOF: persistent}, lab.NeedRedis, lab.NeedMySQL)
			if b.Case.Code != "" {
				return seedsAgain(b)
			}
			apps := b.Apps(2)
			b.Stock(emptyUnits)
			sold := askAll(b, apps, 1)
			b.Require(sold == emptyUnits, "all is sold")
			loseRedis(b)
			if persistent {
				b.AwaitReady(apps)
			} else {
				b.Eventually("the instances know that it is empty", func() bool { return knowsLoss(b, apps) })
			}
			again := askAll(b, apps, 1+emptyUnits)
			b.Evidence(lab.Balance, again, "sold-before-and-after", "initial", emptyUnits, "sold", again)
			if persistent {
				b.Judge()
			} else {
				afterwards(b, apps)
			}
			switch {
			case again > 0:
				return lab.Oversells
			case persistent:
				return lab.Safe
			}
			return lab.Refuses
		},
	}
}

// askAll sends one customer for each unit, to the instances in turn, and returns how many were served. first is the
// number of the first customer.
func askAll(b *lab.Testbed, apps []*lab.App, first int) int {
	sold := 0
	for n := range emptyUnits {
		who := fmt.Sprintf("customer %d", first+n)
		reply := b.Sell(apps[n%len(apps)], who, lab.Request{})
		if reply.Outcome == loadtest.Accepted {
			sold++
		} else {
			b.Evidence(lab.Answer, reply.Problem, "was-told", "who", who, "answer", lab.Told(reply))
		}
	}
	return sold
}

// loseRedis kills and restarts Redis.
func loseRedis(b *lab.Testbed) {
	server := b.Server(lab.NeedRedis)
	b.Must("kill redis", server.Kill())
	b.Must("restart redis", server.Restart(b.Ctx))
	b.Note("redis", "restarted", "server", server.Name)
}

// knowsLoss reports whether all instances have found that the store lost its data. Until then they report the SKU as
// unknown.
func knowsLoss(b *lab.Testbed, apps []*lab.App) bool {
	for _, app := range apps {
		_, err := app.Stock(b.Ctx, b.Store(), b.SKU)
		if p, refused := errors.AsType[*loadtest.Problem](err); !refused || p.Name() != "data_lost" {
			return false
		}
	}
	return true
}

// afterwards sets the stock to the true remainder, 0, as an operator would. Then all instances reply again: sold out.
func afterwards(b *lab.Testbed, apps []*lab.App) {
	b.Stock(0)
	for _, app := range apps {
		reply := b.Sell(app, "last customer of "+app.Name, lab.Request{})
		b.Evidence(lab.Answer, reply.Problem, "says-after-reset", "app", app.Name, "answer", lab.Told(reply))
		b.Require(reply.Problem == "sold_out", "the store is open again")
	}
}

// seedsAgain does what is often written: each process sets the initial stock unless the key exists.
func seedsAgain(b *lab.Testbed) lab.Outcome {
	sold := 0
	sell := func(c *redis.Client, who string) {
		b.Must("SET NX", c.SetNX(b.Ctx, "stock", emptyUnits, 0).Err())
		b.Statement(who, "redis", fmt.Sprintf("SET stock %d NX", emptyUnits))
		for range emptyUnits {
			left, err := c.Eval(b.Ctx, sellOne, []string{"stock"}).Int()
			b.Must("sell", err)
			if left < 0 {
				b.Note(who, "sold-out")
				continue
			}
			sold++
			b.Statement(who, "redis", fmt.Sprintf("DECR stock = %d", left))
		}
	}
	sell(b.RedisAt(b.Server(lab.NeedRedis).Addr), "A")
	b.Require(sold == emptyUnits, "all is sold")
	loseRedis(b)
	sell(b.RedisAt(b.Server(lab.NeedRedis).Addr), "B")
	b.Evidence(lab.Balance, sold, "sold-before-and-after", "initial", emptyUnits, "sold", sold-emptyUnits)
	if sold > emptyUnits {
		return lab.Oversells
	}
	return lab.Safe
}

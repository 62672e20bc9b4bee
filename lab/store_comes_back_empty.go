package lab

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"example.com/stock/loadtest"
	"example.com/stock/stack"
)

// emptyUnits is what is in stock, and sold, before the store is lost.
const emptyUnits = 3

func storeComesBackEmpty() Scenario {
	return Scenario{
		Name: "store-comes-back-empty", Group: NoLock,
		Title: Text{"The store comes back without its data", "存储丢了数据之后重新上线"},
		Setup: Text{
			"Three units in Redis, and all three are sold. Redis keeps nothing on disk; or it keeps an append-only file.",
			"Redis 里库存 3 件，全部卖出。Redis 不落盘；或者保留追加文件（AOF）。",
		},
		Forced: Text{
			"Redis is killed and started again. Three more customers ask.",
			"Redis 被杀死并重新启动。又来了三位客户。",
		},
		Why: Text{
			"An empty store looks the same before its first start and after a loss. Code that puts in the initial stock where " +
				"there is none sells everything a second time, and no lock or atomic write keeps it from that: each of them " +
				"asks the store.",
			"空的存储在第一次启动之前和丢失数据之后看起来一模一样。“没有就写入初始库存”的代码会把所有商品再卖一遍；" +
				"锁和原子写都拦不住它，因为它们问的正是这个存储。",
		},
		Fix: Text{
			"The store has an identity, made at the first start and remembered outside of it, here in MySQL and in each " +
				"instance. An empty store that somebody remembers sells nothing until a person has set the stock. And " +
				"persistence, so that it seldom comes to that.",
			"给存储一个身份，在第一次启动时生成，并在存储之外记住它（这里是 MySQL 和每个实例）。" +
				"有人记得的存储若空了，在人重新设置库存之前什么也不卖。再加上持久化，让这种事少发生。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: onRedis(concat(
			[]Case{{Code: "naive", Variant: "seeds what is not there", Want: Forecast{Outcome: Oversells}}},
			stated(Refuses, "", "atomic", "optimistic", "redis-watchdog"),
			stated(Safe, "append-only file", "atomic"))),
		Run: func(b *Bench) Observation {
			persistent := b.Case.Variant == "append-only file"
			b.Fresh(stack.Options{AOF: persistent}, NeedRedis, NeedMySQL)
			if b.Case.Code != "" {
				return seedsAgain(b)
			}
			apps := b.Apps(2)
			b.Stock(emptyUnits)
			sold := askAll(b, apps, 1)
			b.must(sold == emptyUnits, "all is sold")
			b.loseRedis()
			if persistent {
				b.ready(apps)
			} else {
				b.Eventually("the instances know that it is empty", func() bool { return b.knowsLoss(apps) })
			}
			again := askAll(b, apps, 1+emptyUnits)
			b.Evidence(Balance, again, "%d in stock, and sold before; %d sold after", emptyUnits, again)
			if persistent {
				b.Judge()
			} else {
				b.afterwards(apps)
			}
			switch {
			case again > 0:
				return Observation{Outcome: Oversells}
			case persistent:
				return Observation{Outcome: Safe}
			}
			return Observation{Outcome: Refuses}
		},
	}
}

func onRedis(cases []Case) []Case {
	for i := range cases {
		if cases[i].Strategy != "" {
			cases[i].Store = "redis"
		}
	}
	return cases
}

// askAll sends as many customers as there are units, to one instance after the other, and returns how many were served.
// first is the number of the first of them.
func askAll(b *Bench, apps []*App, first int) int {
	sold := 0
	for n := range emptyUnits {
		who := fmt.Sprintf("customer %d", first+n)
		reply := b.Sell(apps[n%len(apps)], who, Ask{})
		if reply.Outcome == loadtest.Accepted {
			sold++
		} else {
			b.Evidence(Answer, reply.Problem, "%s was told: %s", who, Told(reply))
		}
	}
	return sold
}

// loseRedis kills Redis and starts it again.
func (b *Bench) loseRedis() {
	server := b.Server(NeedRedis)
	b.Must("kill redis", server.Kill())
	b.Must("restart redis", server.Restart(b.Ctx))
	b.Note("redis", "%s is killed and started again", server.Name)
}

// knowsLoss asks the instances for the stock. Until they have looked, a SKU that is not there is unknown.
func (b *Bench) knowsLoss(apps []*App) bool {
	for _, app := range apps {
		_, err := app.client.Stock(b.Ctx, b.Store(), b.SKU)
		if p, refused := errors.AsType[*loadtest.Problem](err); !refused || p.Name() != "data_lost" {
			return false
		}
	}
	return true
}

// afterwards has a person set what is really left: nothing. All instances sell again, that is, they say that it is sold out.
func (b *Bench) afterwards(apps []*App) {
	b.Stock(0)
	for _, app := range apps {
		reply := b.Sell(app, "last customer of "+app.Name, Ask{})
		b.Evidence(Answer, reply.Problem, "after a person has set the stock to 0, %s says: %s",
			app.Name, Told(reply))
		b.must(reply.Problem == "sold_out", "the store is open again")
	}
}

// seedsAgain is what is often written: on every connection, put in the initial stock unless it is there.
func seedsAgain(b *Bench) Observation {
	sold := 0
	sell := func(c *redis.Client, who string) {
		b.Must("SET NX", c.SetNX(b.Ctx, "stock", emptyUnits, 0).Err())
		b.Note(who, "SET stock %d NX", emptyUnits)
		for range emptyUnits {
			const decrement = `if tonumber(redis.call('GET', KEYS[1])) < 1 then return -1 end
				return redis.call('DECR', KEYS[1])`
			left, err := c.Eval(b.Ctx, decrement, []string{"stock"}).Int()
			b.Must("sell", err)
			if left < 0 {
				b.Note(who, "sold out")
				continue
			}
			sold++
			b.Note(who, "DECR stock = %d", left)
		}
	}
	sell(b.RedisAt(b.Server(NeedRedis).Addr), "A")
	b.must(sold == emptyUnits, "all is sold")
	b.loseRedis()
	sell(b.RedisAt(b.Server(NeedRedis).Addr), "B")
	b.Evidence(Balance, sold, "%d in stock, and sold before; %d sold after", emptyUnits, sold-emptyUnits)
	if sold > emptyUnits {
		return Observation{Outcome: Oversells}
	}
	return Observation{Outcome: Safe}
}

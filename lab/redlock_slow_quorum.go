package lab

import (
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/loadtest"
	"example.com/stock/stack/wire"
)

func redlockSlowQuorum() Scenario {
	return Scenario{
		Name: "redlock-slow-quorum", Group: Redlock,
		Title: Text{"The majority answers after the lease is over", "多数派的答复来时租约已过"},
		Setup: Text{
			"Two units in stock; five masters; a lease of 2 s; the replies of three of the nodes pass a proxy.",
			"库存 2 件；五个主节点；租约 2 秒；其中三个节点的回复经过代理。",
		},
		Forced: Text{
			"A asks all five. The replies of three are held back until the keys have expired on every node. Then they arrive, and all say yes. Before A writes B asks.",
			"A 询问全部五个节点；其中三个的回复被扣住，直到所有节点上的键都过期；然后回复到达，全都是“同意”。A 写入之前，B 来请求。",
		},
		Why: Text{
			"The lease runs from when the node sets the key, and nobody but the client knows how long ago it asked. Five times yes says who had the lock, not who has it.",
			"租约从节点写入键时起算，而只有客户端知道自己多久以前发出的请求。五个“同意”只说明谁拿到过锁，不说明谁现在持有。",
		},
		Fix: Text{
			"Count the time from before the first request: what is left is the lease less that, less an allowance for drift. If nothing is left, there is no lock: take it back everywhere.",
			"从发出第一个请求之前开始计时：剩余有效期 = 租约 − 已用时间 − 漂移余量。没有剩余就是没有锁，要在所有节点上撤回。",
		},
		Needs: []Need{NeedRedis, NeedRedlock},
		Cases: concat([]Case{{Code: "naive", Variant: "counts votes", Want: Forecast{Outcome: Oversells}}}, stated(Refuses, "", "redlock")),
		Run: func(b *Bench) Observation {
			nodes := b.nodes()
			proxies, env := nodes.proxies()
			if b.Case.Code == "naive" {
				return slowNaive(b, nodes, proxies)
			}
			app := b.Apps(1, env, "STOCK_REDLOCK_LEASE=2s", "STOCK_REDLOCK_NODE_TIMEOUT=10s")[0]
			b.Stock(2)
			b.Sell(app, "warm-up", Ask{}) // has the connections made and the nodes known
			late := nodes.slow(proxies)
			a := b.Begin(app, "A", Ask{Wait: Once()})
			late(b)
			reply := a.Reply()
			if b.Judge(); reply.Outcome == loadtest.Failed && reply.Problem == "backend_down" {
				return Observation{Outcome: Refuses}
			}
			return Observation{Outcome: Safe}
		},
	}
}

// slow holds the replies of three nodes to the next request for the key. late lets them go when the key is gone from every node.
func (n *nodes) slow(proxies []*wire.Proxy) (late func(*Bench)) {
	var held []*wire.Snare
	for _, p := range proxies[2:] {
		held = append(held, n.b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.HoldReply, Match: wire.Contains(n.key)}))
	}
	return func(b *Bench) {
		for i, s := range held {
			b.Sprung(s, Text{n.name(i+2) + " has set the key, and its reply is held back", n.name(i+2) + " 已经写入键，它的答复被扣住"})
		}
		n.holders(Text{"while the replies are held back", "回复被扣住期间"})
		b.Eventually("the keys expire", func() bool {
			for _, c := range n.clients {
				err := c.Get(b.Ctx, n.key).Err()
				if err == nil {
					return false
				}
				if !errors.Is(err, redis.Nil) {
					b.Must("GET", err)
				}
			}
			return true
		})
		n.holders(Text{"when the lease is over", "租约到期时"})
		for _, s := range held {
			s.Release()
		}
	}
}

func slowNaive(b *Bench, n *nodes, proxies []*wire.Proxy) Observation {
	var addrs, direct []string
	for i, p := range proxies {
		addrs, direct = append(addrs, p.Addr()), append(direct, n.servers[i].Addr)
	}
	const lease = 2 * time.Second
	first, second := newNaiveRedlock(b, addrs, n.key, lease), newNaiveRedlock(b, direct, n.key, 2*patience)
	late := n.slow(proxies)
	type answer struct {
		ok  bool
		err error
	}
	asked := make(chan answer, 1)
	b.Defer(func() {
		for _, c := range n.clients {
			_ = c.Del(b.Ctx, n.key).Err()
		}
	})
	b.owned.Go(func() {
		ok, err := first.try(b.Ctx)
		asked <- answer{ok, err}
	})
	late(b)
	a := <-asked
	b.Must("A asks", a.err)
	ok, err := second.try(b.Ctx)
	b.Must("B asks", err)
	b.Evidence(Hold, []bool{a.ok, ok}, "A believes that it has the lock: %t; B has it: %t", a.ok, ok)
	if a.ok && ok {
		return bothSell(b, "A", "B")
	}
	return Observation{Outcome: Safe}
}

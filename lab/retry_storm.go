package lab

import "fmt"

func retryStorm() Scenario {
	const buyers = 24
	return Scenario{
		Name: "optimistic-retry-storm", Group: MySQL,
		Title:  Text{"The retry storm of the optimistic write", "乐观写的重试风暴"},
		Setup:  Text{fmt.Sprintf("%d units in stock, %d buyers of one each, on two instances.", buyers, buyers), fmt.Sprintf("库存 %d 件，%d 个客户各买一件，分布在两个实例上。", buyers, buyers)},
		Forced: Text{"All of them read the same version and stop before the write; then all go on at once.", "所有人读到同一版本并停在写入之前；然后同时继续。"},
		Why: Text{
			"Of all who read one version one succeeds. The rest did their work for nothing, read again, and are again many: with n contenders a sale costs up to n tries.",
			"读到同一版本的人里只有一个成功，其余白做一遍、重新读取，而且仍然很多：n 个竞争者时，一次成交最多要 n 次尝试。",
		},
		Fix: Text{
			"Optimism where conflicts are rare. On a hot SKU a lock, segments, or one atomic statement; and a pause at random between tries, and a bound on them.",
			"只在冲突少的地方乐观。热点 SKU 用锁、分段或一条原子语句；重试之间随机停顿，并限制次数。",
		},
		Needs: []Need{NeedRedis, NeedMySQL},
		Cases: []Case{
			{Strategy: "optimistic", Store: "redis", Want: Forecast{Outcome: Repeats}},
			{Strategy: "optimistic", Store: "mysql", Want: Forecast{Outcome: Repeats}},
			{Strategy: "atomic", Store: "redis", Want: Forecast{Outcome: Safe}},
		},
		Run: func(b *Bench) Observation {
			apps := b.Apps(2)
			b.Stock(buyers)
			at := BeforeWrite
			if b.Case.Strategy == "atomic" {
				at = AfterLock
			}
			for i := range buyers {
				b.Begin(apps[i%2], fmt.Sprintf("B%d", i+1), Ask{Pause: []string{at}})
			}
			for _, c := range b.calls {
				c.Paused(at)
			}
			for _, c := range b.calls {
				c.Go()
			}
			tries, again := 0, 0
			for _, c := range b.calls {
				reply := c.Reply()
				b.must(reply.Receipt != nil, c.Who+" is served")
				tries += max(reply.Tries, 1)
				if reply.Tries > 1 {
					again++
				}
			}
			b.Evidence(Served, tries, "%d sales took %d tries; %d of %d buyers had to begin again", buyers, tries, again, buyers)
			b.must(!b.Judge().Lost(), "nothing is lost")
			if again >= buyers-1 {
				return Observation{Outcome: Repeats}
			}
			return Observation{Outcome: Safe}
		},
	}
}

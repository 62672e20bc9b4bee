package scenario

import "example.com/stock/lab"

func deleteAnothersLock() lab.Scenario {
	return lab.Scenario{
		Name: "delete-anothers-lock", Group: lab.SetNX,
		Needs: []lab.Need{lab.NeedRedis},
		Cases: lab.Cases("", "redis-setnx-del", "redis-setnx-expire", "redis-setnx-watch", "redis-setnx"),
		Predict: func(_ lab.Case, p lab.StrategyPromise) lab.Forecast {
			if p.Exclusive && p.SignalsLoss {
				return lab.Forecast{Outcome: lab.Safe, From: "exclusive, signals_loss"}
			}
			return lab.Forecast{Outcome: lab.Oversells, From: "signals_loss: false"}
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			short, long := b.Apps(1, "STOCK_LOCK_SETNX_LEASE=1s")[0], b.Apps(2, "STOCK_LOCK_SETNX_LEASE=30s")
			b.Stock(2)
			b.Watch(long[0])
			a := b.BeginPaused(short, "A", lab.AfterWrite, lab.Request{IgnoreLoss: true})
			second := b.BeginPaused(long[0], "B", lab.BeforeWrite, lab.Request{Wait: lab.For(lab.Patience)})
			b.TTL(lockKey(b.Case.Strategy, b.SKU))
			a.Go().Reply()
			b.TTL(lockKey(b.Case.Strategy, b.SKU))
			thirdIsLetIn(b, long[1], second)
			return b.Judge().Seen()
		},
	}
}

package lab

func duplicateRequest() Scenario {
	return Scenario{
		Name: "duplicate-request", Group: NoLock,
		Title: Text{"The customer asks again because the reply was lost", "应答丢失，客户又请求一次"},
		Setup: Text{"Two units in stock, and one order for one of them.", "库存 2 件，只有一张买 1 件的订单。"},
		Forced: Text{
			"The sale is made; before its reply is sent the customer's connection breaks. The customer, who cannot know, sends the same request again.",
			"交易已完成，应答发出之前客户的连接断了。客户无从得知，于是把同样的请求再发一次。",
		},
		Why: Text{
			"A lock puts requests in order. It does not know that two of them are one. \"At least once\" of the network and \"sell one\" of the service make two.",
			"锁只让请求排队，并不知道其中两个其实是同一个。网络的“至少一次”加上服务的“卖一件”，就卖了两件。",
		},
		Fix: Text{
			"An idempotency key that the customer sends, stored in the same transaction as the order; the second request gets the first one's answer.",
			"由客户发送幂等键，并与订单写在同一个事务里；第二次请求得到第一次的答复。",
		},
		Needs: []Need{NeedRedis, NeedZooKeeper, NeedMySQL},
		Cases: stated(Duplicates, "", "none", "redis-setnx", "redis-watchdog", "zk-sequential", "pessimistic", "optimistic", "atomic"),
		Quick: true,
		Run: func(b *Bench) Observation {
			apps := b.Apps(2)
			b.Stock(2)
			b.Begin(apps[0], "A", Ask{Pause: []string{AfterUnlock}}).Paused(AfterUnlock).Leave()
			b.Sell(apps[1], "again", Ask{})
			j := b.Judge()
			for i, o := range j.Orders {
				b.Evidence(Answer, o.OrderID, "order %d of the one that was wanted: %s, read %d, left %d", i+1, o.OrderID, o.Read, o.Remaining)
			}
			if len(j.Orders) > 1 {
				return Observation{Outcome: Duplicates}
			}
			return Observation{Outcome: Safe}
		},
	}
}

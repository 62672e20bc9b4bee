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
		Cases: concat(stated(Duplicates, "", "none", "redis-setnx", "redis-watchdog", "zk-sequential", "pessimistic", "optimistic", "atomic"),
			[]Case{{Code: "mended", Variant: "a key, unique in the orders", Want: Forecast{Outcome: Safe}}}),
		Quick: true,
		Run: func(b *Bench) Observation {
			if b.Case.Code != "" {
				return sellOnce(b)
			}
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

// sellOnce writes the customer's key with the order. The database refuses the second, and with it the deduction, for they are one transaction.
func sellOnce(b *Bench) Observation {
	db := b.DB()
	b.Exec("mysql", db, "CREATE TABLE stock (sku VARCHAR(64) PRIMARY KEY, quantity INT NOT NULL) ENGINE=InnoDB")
	b.Exec("mysql", db, "CREATE TABLE orders (id INT AUTO_INCREMENT PRIMARY KEY, request VARCHAR(64) NOT NULL UNIQUE) ENGINE=InnoDB")
	b.Exec("mysql", db, "INSERT INTO stock VALUES ('sku', 2)")
	a := b.session(db, "A")
	for _, what := range []Text{{"asks", "提出请求"}, {"asks again", "再次提出请求"}} {
		b.Note("A", "%s", what)
		a.do("BEGIN")
		a.do("UPDATE stock SET quantity = quantity - 1 WHERE sku = 'sku' AND quantity >= 1")
		if err := a.try("INSERT INTO orders (request) VALUES ('order of A')"); err != nil {
			b.must(errno(err) == errDuplicate, "the second is refused with 1062")
			a.do("ROLLBACK")
			id := b.Int("A", db, "SELECT id FROM orders WHERE request = 'order of A'")
			b.Evidence(Answer, id, "the second request was told: %v; its answer is order %d, as the first one's", err, id)
			continue
		}
		a.do("COMMIT")
	}
	left, sold := b.Int("mysql", db, "SELECT quantity FROM stock"), b.Int("mysql", db, "SELECT COUNT(*) FROM orders")
	b.Evidence(Balance, left, "2 in stock, %d sold, %d left", sold, left)
	if sold == 1 && left == 1 {
		return Observation{Outcome: Safe}
	}
	return Observation{Outcome: Duplicates}
}

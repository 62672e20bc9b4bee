package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

func twoRelays() lab.Scenario {
	return lab.Scenario{
		Name: "two-relays", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Reorders, "workers-skip-what-is-locked"),
			byHand("fixed", lab.Safe, "one-worker-for-each-sku"),
			ours(lab.Safe, ""),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != lab.OrderService {
				return skipLocked(b)
			}
			r := openRelays(b)
			r.Stock("", 5)
			r.await(b, "")
			late := b.Trap(r.sink, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: sending(b)})
			r.Ask(r.first, "A", lab.Buy(one()))
			b.Sprung(late, "event-is-on-its-way", "who", r.first.Name)
			second := r.startSecond()
			r.Ask(second, "B", lab.Buy(one()))
			r.Stock(".b", 5)
			r.await(b, ".b") // by the second relay, which has seen the event of B, too
			late.Release()
			b.Note("wire", "late-event-arrives", "who", r.first.Name)
			return r.verdict(3)
		},
	}
}

// sending matches the message by which an event of the case's SKU goes to the consumer.
func sending(b *lab.Testbed) func([]byte) bool {
	sku, webhook := wire.Contains(b.SKU), wire.Contains("webhook-id")
	return func(m []byte) bool { return sku(m) && webhook(m) }
}

// skipLocked has two events of one SKU, and two workers that each take an event that is not locked. The first is slow
// to publish, so the consumer ends with the older event. In the fixed code a worker locks a SKU with all its events.
func skipLocked(b *lab.Testbed) lab.Outcome {
	db := newTables(b,
		"outbox (id INT AUTO_INCREMENT PRIMARY KEY, available INT NOT NULL)",
		"skus (id INT PRIMARY KEY)",
	)
	b.Exec("mysql", db, "INSERT INTO outbox VALUES (1, 4), (2, 3)")
	b.Exec("mysql", db, "INSERT INTO skus VALUES (1)")
	believes := int64(5)
	publish := func(event int64) {
		believes = b.Int("consumer", db, "SELECT available FROM outbox WHERE id = ?", event)
	}
	const head = "SELECT id FROM outbox ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"
	first, second := newSession(b, db, "relay 1"), newSession(b, db, "relay 2")
	if b.Case.Code == "naive" {
		first.do("BEGIN")
		one := first.count(head)
		second.do("BEGIN")
		two := second.count(head)
		b.Require(one == 1 && two == 2, "each worker has an event")
		publish(two)
		b.Note("relay 1", "publishes-late")
		publish(one)
	} else {
		const sku = "SELECT id FROM skus WHERE id = 1 FOR UPDATE SKIP LOCKED"
		first.do("BEGIN")
		b.Require(first.rows(sku) == 1, "the first worker has the SKU")
		second.do("BEGIN")
		b.Require(second.rows(sku) == 0, "the second worker finds nothing to do")
		b.Note("relay 1", "publishes-late")
		publish(1)
		publish(2)
	}
	first.do("COMMIT")
	second.do("COMMIT")
	b.Evidence(lab.Served, believes, "consumer-believes", "believes", believes, "left", 3)
	if believes != 3 {
		return lab.Reorders
	}
	return lab.Safe
}

package scenario

import (
	"slices"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

func relayKilled() lab.Scenario {
	return lab.Scenario{
		Name: "relay-killed-between-publish-and-mark", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Loses, "marks-then-publishes"),
			byHand("naive", lab.Duplicates, "publishes-then-marks"),
			byHand("fixed", lab.Safe, "publishes-then-marks-inbox"),
			ours(lab.Safe, ""),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != lab.OrderService {
				return emptyTheOutbox(b)
			}
			r := openRelays(b)
			held := b.Trap(r.Proxy(), wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: b.Marking()})
			r.Stock("", 5)
			b.Sprung(held, "published-not-marked")
			if !slices.Contains(r.receiver.Numbers(""), 1) {
				return lab.Loses // the event was recorded as sent, and was not
			}
			die(b, r.first)
			second := r.startSecond()
			r.Ask(second, "A", lab.Buy(one()))
			r.Ask(second, "B", lab.Buy(one()))
			return r.verdict(3)
		},
	}
}

// emptyTheOutbox sells two units and writes their events to a table in the same transactions. A relay dies between
// sending the first event and recording that it was sent. The next relay continues.
func emptyTheOutbox(b *lab.Testbed) lab.Outcome {
	db := newTables(b,
		"outbox (id INT AUTO_INCREMENT PRIMARY KEY, told BOOL NOT NULL DEFAULT FALSE)",
		"mails (event INT)",
		"inbox (event INT PRIMARY KEY)",
	)
	b.Exec("mysql", db, "INSERT INTO outbox VALUES (1, FALSE), (2, FALSE)")
	consumer := newSession(b, db, "consumer")
	publish := func(event int64) {
		if b.Case.Code == "fixed" {
			consumer.do("BEGIN")
			defer consumer.do("COMMIT")
			if consumer.changed("INSERT IGNORE INTO inbox VALUES (?)", event) == 0 {
				return
			}
		}
		consumer.do("INSERT INTO mails VALUES (?)", event)
	}
	first, second := newSession(b, db, "relay 1"), newSession(b, db, "relay 2")
	const head, mark = "SELECT MIN(id) FROM outbox WHERE NOT told", "UPDATE outbox SET told = TRUE WHERE id = ?"
	event := first.count(head)
	if b.Case.Variant == "marks-then-publishes" {
		first.do(mark, event)
	} else {
		publish(event)
	}
	b.Note("relay 1", "dies-between-the-two")
	for second.count("SELECT COUNT(*) FROM outbox WHERE NOT told") > 0 {
		event := second.count(head)
		publish(event)
		second.do(mark, event)
	}
	mails := b.Int("mysql", db, "SELECT COUNT(*) FROM mails")
	b.Evidence(lab.Served, mails, "mails-of-sales", "mails", mails, "sales", 2)
	switch {
	case mails < 2:
		return lab.Loses
	case mails > 2:
		return lab.Duplicates
	}
	return lab.Safe
}

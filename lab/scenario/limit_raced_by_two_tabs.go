package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/wire"
)

func limitRaced() lab.Scenario {
	return lab.Scenario{
		Name: "limit-raced-by-two-tabs", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Exceeds, "counts-then-inserts"),
			byHand("fixed", lab.Refuses, "counts-in-the-row-it-writes"),
			ours(lab.Refuses, ""),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != lab.OrderService {
				return buyInTwoTabs(b)
			}
			s := openPair(b)
			s.Stock("", 10)
			s.Limit(2)
			two := lab.Buy(checkout.Line{Quantity: 2})
			held := b.Trap(s.Proxy(), wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: b.Moving("sell")})
			tabs := []*lab.Visit{s.Begin(s.first, "A", two)}
			b.Sprung(held, "first-tab-is-about-to-write")
			tabs = append(tabs, s.Begin(s.second, "A", two))
			rowIsWaitedFor(b, "A")
			held.Release()
			bought, refused := 0, 0
			for _, tab := range tabs {
				if tab.Bought() {
					bought++
				} else if tab.Reply().Problem == "limit_reached" {
					refused++
				}
			}
			books, sound := s.Judge()
			switch {
			case books[""].Sold > 2:
				return lab.Exceeds
			case !sound:
				return lab.Oversells
			}
			b.Require(bought == 1 && refused == 1, "one tab buys, and the other is told of the limit")
			return lab.Refuses
		},
	}
}

// buyInTwoTabs makes one customer buy two units in each of two tabs, where the limit is two. The naive code sums the
// customer's orders and inserts one if the sum is below the limit; in both tabs the sum is 0. The fixed code keeps the
// sum in a row, and checks the limit in the statement that raises it.
func buyInTwoTabs(b *lab.Testbed) lab.Outcome {
	db := newTables(b,
		"orders (id INT AUTO_INCREMENT PRIMARY KEY, customer VARCHAR(64), units INT)",
		"limits (customer VARCHAR(64) PRIMARY KEY, used INT NOT NULL)",
	)
	first, second := newSession(b, db, "tab 1"), newSession(b, db, "tab 2")
	insert := "INSERT INTO orders (customer, units) VALUES ('A', 2)"
	refused := int64(0)
	if b.Case.Code == "naive" {
		const add = "SELECT COALESCE(SUM(units), 0) FROM orders WHERE customer = 'A'"
		first.do("BEGIN")
		second.do("BEGIN")
		b.Require(first.count(add)+2 <= 2 && second.count(add)+2 <= 2, "both tabs are below the limit")
		for _, tab := range []*session{first, second} {
			tab.do(insert)
			tab.do("COMMIT")
		}
	} else {
		const take = "INSERT INTO limits VALUES ('A', 2)" +
			" ON DUPLICATE KEY UPDATE used = IF(used + 2 <= 2, used + 2, used)"
		first.do("BEGIN")
		b.Require(first.changed(take) > 0, "the first tab is below the limit")
		first.do(insert)
		second.do("BEGIN")
		waits := second.inBackground(take)
		second.waiting(db)
		first.do("COMMIT")
		b.Must("tab 2: "+take, <-waits)
		if second.count("SELECT ROW_COUNT()") == 0 {
			refused++
			second.do("ROLLBACK")
			b.Evidence(lab.Answer, nil, "told-of-the-limit", "who", "tab 2")
		} else {
			second.do(insert)
			second.do("COMMIT")
		}
	}
	units := b.Int("mysql", db, "SELECT SUM(units) FROM orders WHERE customer = 'A'")
	b.Evidence(lab.Balance, units, "units-of-one-customer", "who", "A", "units", units, "limit", 2)
	switch {
	case units > 2:
		return lab.Exceeds
	case refused == 0:
		return lab.Safe
	}
	return lab.Refuses
}

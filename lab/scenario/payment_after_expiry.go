package scenario

import "example.com/stock/lab"

// The variants: whether the unit of the expired reservation is still available.
const (
	soldToAnother = "somebody-else-has-it"
	stillThere    = "the-unit-is-still-there"
)

func paymentAfterExpiry() lab.Scenario {
	return lab.Scenario{
		Name: "payment-after-expiry", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "confirms-whatever-it-finds"),
			byHand("fixed", lab.Refuses, "takes-the-unit-again"),
			ours(lab.Refuses, soldToAnother),
			ours(lab.Safe, stillThere),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != lab.OrderService {
				return payTooLate(b)
			}
			s := b.Shop(1)
			s.Stock("", 1)
			a := s.Ask(s.Apps[0], "A", lab.Keep(briefly, one()))
			s.AwaitState(a, "expired")
			if b.Case.Variant == soldToAnother {
				b.Require(s.Ask(s.Apps[0], "B", lab.Buy(one())).Bought(), "B buys the unit")
			}
			pay := s.Ask(s.Apps[0], "A", lab.Pay(a))
			books, sound := s.Judge()
			switch {
			case !sound || books[""].Sold != 1:
				return lab.Oversells
			case pay.Reply().Problem == "reservation_expired":
				return lab.Refuses
			}
			b.Require(pay.Bought() && pay.Got().Late, "A is told that its payment was late, and has the unit")
			return lab.Safe
		},
	}
}

// payTooLate delivers A's payment after A's reservation has expired and its unit was sold to B.
func payTooLate(b *lab.Testbed) lab.Outcome {
	db := newTables(b,
		"stock (id INT PRIMARY KEY, available INT NOT NULL)",
		"reservations (id INT PRIMARY KEY, state VARCHAR(16))",
		"orders (customer VARCHAR(8))",
	)
	b.Exec("mysql", db, "INSERT INTO stock VALUES (1, 1)")
	b.Exec("mysql", db, "INSERT INTO reservations VALUES (1, 'expired')")
	const take = "UPDATE stock SET available = available - 1 WHERE available >= 1"
	buyer, payer := newSession(b, db, "B"), newSession(b, db, "A")
	buyer.do("BEGIN")
	b.Require(buyer.changed(take) == 1, "B takes the unit")
	buyer.do("INSERT INTO orders VALUES ('B')")
	buyer.do("COMMIT")
	payer.do("BEGIN")
	refused := b.Case.Code == "fixed" && payer.changed(take) == 0
	if refused {
		payer.do("ROLLBACK")
		b.Evidence(lab.Answer, nil, "money-goes-back", "who", "A")
	} else {
		payer.do("UPDATE reservations SET state = 'confirmed' WHERE id = 1")
		payer.do("INSERT INTO orders VALUES ('A')")
		payer.do("COMMIT")
	}
	sold, left := b.Int("mysql", db, "SELECT COUNT(*) FROM orders"), b.Int("mysql", db, "SELECT available FROM stock")
	if !sums(b, 1, left, 0, sold) {
		b.Evidence(lab.Pair, sold, "one-unit-two-owners", "one", "B", "other", "A")
		return lab.Oversells
	}
	b.Require(refused, "A is told")
	return lab.Refuses
}

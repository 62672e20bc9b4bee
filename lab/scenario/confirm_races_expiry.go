package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// The variants: which of the two writes first.
const (
	confirmFirst = "the-confirmation-is-first"
	expiryFirst  = "the-expiry-is-first"
)

func confirmRacesExpiry() lab.Scenario {
	return lab.Scenario{
		Name: "confirm-races-expiry", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "looks-then-changes"),
			byHand("fixed", lab.Safe, "changes-only-what-is-held"),
			ours(lab.Safe, confirmFirst),
			ours(lab.Safe, expiryFirst),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != lab.OrderService {
				return endTwice(b)
			}
			s := openPair(b)
			s.Stock("", 1)
			thaw := b.Freeze(s.second) // so that only the first instance sweeps
			a := s.Ask(s.first, "A", lab.Keep(briefly, one()))
			var pay *lab.Visit
			moving := "confirm"
			if b.Case.Variant == expiryFirst {
				moving = "expire"
			}
			held := b.Trap(s.Proxy(), wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: b.Moving(moving)})
			if moving == "confirm" {
				pay = s.Begin(s.first, "A", lab.Pay(a))
			}
			b.Sprung(held, "step-is-about-to-be-written", "kind", moving)
			thaw()
			b.AwaitReady([]*lab.App{s.second})
			if moving == "expire" {
				pay = s.Begin(s.second, "A", lab.Pay(a))
			}
			rowIsWaitedFor(b, s.second.Name)
			held.Release()
			b.Require(pay.Bought(), "A has paid, and has its order")
			books, sound := s.Judge()
			k := books[""]
			switch {
			case !sound || k.Available != 0 || k.Reserved != 0 || k.Sold != 1:
				return lab.Oversells
			case s.Orders("A") != 1:
				return lab.Duplicates
			}
			return lab.Safe
		},
	}
}

// endTwice expires a reservation of one unit while its customer pays. The sweeper and the customer both read, then both
// write. The naive code decides by what it read, the fixed code by the rows that its UPDATE changed.
func endTwice(b *lab.Testbed) lab.Outcome {
	db := newTables(b,
		"stock (id INT PRIMARY KEY, available INT, reserved INT, sold INT)",
		"reservations (id INT PRIMARY KEY, state VARCHAR(16))",
	)
	b.Exec("mysql", db, "INSERT INTO stock VALUES (1, 0, 1, 0)")
	b.Exec("mysql", db, "INSERT INTO reservations VALUES (1, 'held')")
	customer, sweeper := newSession(b, db, "A"), newSession(b, db, "sweeper")
	const look = "SELECT COUNT(*) FROM reservations WHERE id = 1 AND state = 'held'"
	b.Require(customer.count(look) == 1 && sweeper.count(look) == 1, "both see a reservation that is held")
	ends := 0
	end := func(s *session, state, gives string) {
		update := "UPDATE reservations SET state = '" + state + "' WHERE id = 1"
		if b.Case.Code == "fixed" {
			update += " AND state = 'held'"
		}
		s.do("BEGIN")
		if s.changed(update) == 0 {
			s.do("ROLLBACK")
			b.Evidence(lab.Answer, nil, "has-ended-already", "who", s.who)
			return
		}
		s.do("UPDATE stock SET reserved = 0, " + gives)
		s.do("COMMIT")
		ends++
	}
	end(sweeper, "expired", "available = available + 1")
	end(customer, "confirmed", "sold = sold + 1")
	if ends == 2 {
		b.Evidence(lab.Pair, ends, "ended-twice", "one", "sweeper", "other", "A")
	}
	available, sold := b.Int("mysql", db, "SELECT available FROM stock"), b.Int("mysql", db, "SELECT sold FROM stock")
	if !sums(b, 1, available, 0, sold) {
		return lab.Oversells
	}
	return lab.Safe
}

package scenario

import (
	"time"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

func sweepersRace() lab.Scenario {
	return lab.Scenario{
		Name: "sweepers-race", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, "gives-back-what-it-found"),
			byHand("fixed", lab.Safe, "skips-what-another-has-locked"),
			ours(lab.Safe, ""),
		},
		Run: func(b *lab.Testbed) lab.Observation {
			if b.Case.Code != lab.OrderService {
				return sweepTwice(b)
			}
			s := openPair(b)
			s.Stock("", 2)
			// B holds a unit. Otherwise the second return would make "reserved" negative, which the ledger refuses
			// anyway.
			b.Require(s.Ask(s.first, "B", lab.Keep(time.Hour, one())).Got().State == "held", "B has a reservation")
			thaw := b.Freeze(s.second)
			a := s.Ask(s.first, "A", lab.Keep(briefly, one()))
			// The step of the first sweeper is stopped before it locks the row.
			sku, locks := wire.Contains(b.SKU), wire.Contains("FOR UPDATE")
			held := b.Trap(s.Proxy(), wire.Trap{
				On: wire.ToServer, Do: wire.Hold, Match: func(m []byte) bool { return sku(m) && locks(m) },
			})
			b.Sprung(held, "sweeper-has-found-it", "who", s.first.Name)
			thaw()
			b.AwaitReady([]*lab.App{s.second})
			s.AwaitState(a, "expired")
			held.Release()
			// A sweeper ends reservations one after another. When it has ended a later one, it has also finished the
			// earlier step.
			thaw = b.Freeze(s.second)
			s.AwaitState(s.Ask(s.first, "A", lab.Keep(briefly, one())), "expired")
			thaw()
			b.Require(s.Ask(s.first, "C", lab.Buy(one())).Bought(), "the unit is for sale again")
			last := s.Ask(s.first, "D", lab.Buy(one()))
			books, sound := s.Judge()
			expired := 0
			for _, kind := range books[""].Kinds() {
				if kind == "expire" {
					expired++
				}
			}
			if !sound || expired != 2 || last.Bought() {
				return lab.Oversells.Seen()
			}
			b.Require(last.Reply().Problem == "sold_out", "what B keeps is not for sale")
			return lab.Safe.Seen()
		},
	}
}

// sweepTwice runs two sweepers at the same time on one expired reservation of two units.
func sweepTwice(b *lab.Testbed) lab.Observation {
	db := b.DB()
	b.Exec("mysql", db, "CREATE TABLE stock (id INT PRIMARY KEY, available INT, reserved INT) ENGINE=InnoDB")
	b.Exec("mysql", db, "CREATE TABLE reservations (id INT PRIMARY KEY, state VARCHAR(16)) ENGINE=InnoDB")
	b.Exec("mysql", db, "INSERT INTO stock VALUES (1, 3, 2)")
	b.Exec("mysql", db, "INSERT INTO reservations VALUES (1, 'held')")
	find := "SELECT id FROM reservations WHERE state = 'held' LIMIT 10"
	if b.Case.Code == "fixed" {
		find += " FOR UPDATE SKIP LOCKED"
	}
	sweepers := []*session{newSession(b, db, "sweeper 1"), newSession(b, db, "sweeper 2")}
	found := make([]int, len(sweepers))
	for i, s := range sweepers {
		s.do("BEGIN")
		found[i] = s.rows(find)
	}
	for i, s := range sweepers {
		if found[i] == 1 {
			s.do("UPDATE stock SET available = available + 2, reserved = reserved - 2")
			s.do("UPDATE reservations SET state = 'expired' WHERE id = 1")
		}
		s.do("COMMIT")
	}
	if found[1] == 1 {
		b.Evidence(lab.Pair, found, "ended-twice", "one", "sweeper 1", "other", "sweeper 2")
	}
	available := b.Int("mysql", db, "SELECT available FROM stock")
	b.Evidence(lab.Balance, available, "given-back", "reserved", 2, "before", 3, "after", available)
	if available > 5 {
		return lab.Oversells.Seen()
	}
	b.Require(available == 5, "two units are given back")
	return lab.Safe.Seen()
}

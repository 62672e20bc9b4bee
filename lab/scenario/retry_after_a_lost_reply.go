package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// The variants of where a key is kept.
const (
	savedAfter   = "saves-the-reply-after-the-sale"
	markedBefore = "marks-the-key-before-the-sale"
	sameCommit   = "writes-the-key-with-the-sale"
)

func retryAfterALostReply() lab.Scenario {
	return lab.Scenario{
		Name: "retry-after-a-lost-reply", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.Duplicates, savedAfter),
			byHand("naive", lab.Blocks, markedBefore),
			byHand("fixed", lab.Safe, sameCommit),
			ours(lab.Safe, replyLost),
			ours(lab.Safe, requestLost),
			ours(lab.Safe, afterCommit),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != lab.OrderService {
				return keyBesideTheSale(b)
			}
			s := openPair(b)
			s.Stock("", 3)
			do := map[string]wire.Action{
				replyLost: wire.CutReply, requestLost: wire.Cut, afterCommit: wire.HoldReply,
			}[b.Case.Variant]
			ask := lab.Buy(one()).With("1")
			snare := b.Trap(s.Proxy(), wire.Trap{On: wire.ToServer, Do: do, Match: b.Committing("sell")})
			a := s.Begin(s.first, "A", ask)
			b.Sprung(snare, map[wire.Action]string{
				wire.CutReply: "sale-is-written-no-reply", wire.Cut: "sale-is-lost-on-its-way",
				wire.HoldReply: "sale-is-written-reply-held",
			}[do])
			if b.Case.Variant == afterCommit {
				die(b, s.first)
			}
			b.Require(!a.Bought(), "A is told of no order")
			again := s.Ask(s.second, "A", ask)
			b.Require(again.Bought(), "A asks again, and is told of an order")
			_, sound := s.Judge()
			switch orders := s.Orders("A"); {
			case !sound:
				return lab.Oversells
			case orders > 1:
				return lab.Duplicates
			}
			return lab.Safe
		},
	}
}

// keyBesideTheSale sells one unit to A, whose process dies between two steps that are not atomic: committing the sale
// and saving the reply, or marking the key and selling. Then A asks again. The fixed code writes the key in the
// transaction of the sale.
func keyBesideTheSale(b *lab.Testbed) lab.Outcome {
	db := newTables(b,
		stockTable,
		"orders (id INT AUTO_INCREMENT PRIMARY KEY)",
		"seen (request VARCHAR(64) PRIMARY KEY, reply INT)",
	)
	b.Exec("mysql", db, "INSERT INTO stock VALUES ('sku', 3)")
	blocked := false
	for _, dies := range []bool{true, false} {
		what := "asks"
		if !dies {
			what = "asks-again"
		}
		b.Note("A", what)
		a := newSession(b, db, "A")
		if a.count("SELECT COUNT(*) FROM seen WHERE request = 'order of A'") > 0 {
			if blocked = a.count("SELECT COUNT(reply) FROM seen") == 0; blocked {
				b.Evidence(lab.Answer, nil, "told-it-is-in-flight", "who", "A")
			}
			continue
		}
		if b.Case.Variant == markedBefore {
			a.do("INSERT INTO seen (request) VALUES ('order of A')")
			if dies {
				b.Note("A", "dies-before-the-sale")
				continue
			}
		}
		a.do("BEGIN")
		a.do("UPDATE stock SET quantity = quantity - 1 WHERE sku = 'sku' AND quantity >= 1")
		a.do("INSERT INTO orders VALUES ()")
		if b.Case.Variant == sameCommit {
			a.do("INSERT INTO seen VALUES ('order of A', LAST_INSERT_ID())")
		}
		a.do("COMMIT")
		if dies {
			b.Note("A", "dies-after-the-commit")
			continue
		}
		if b.Case.Variant == savedAfter {
			a.do("INSERT INTO seen VALUES ('order of A', LAST_INSERT_ID())")
		}
	}
	sold, _ := books(b, "mysql", db, 3)
	switch {
	case blocked:
		return lab.Blocks
	case sold > 1:
		return lab.Duplicates
	}
	return lab.Safe
}

package scenario

import (
	"example.com/stock/lab"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/lock/locktest/wire"
)

// The variants of how a cart is sold.
const (
	lineByLine  = "a-line-at-a-time"
	inOneCommit = "all-lines-in-one-transaction"
)

func cartHalfSold() lab.Scenario {
	return lab.Scenario{
		Name: "cart-half-sold", Group: lab.Orders,
		Needs: []lab.Need{lab.NeedMySQL},
		Cases: []lab.Case{
			byHand("naive", lab.HalfDone, lineByLine),
			byHand("fixed", lab.Safe, inOneCommit),
			ours(lab.Safe, beforeCommit),
			ours(lab.Safe, afterCommit),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			if b.Case.Code != lab.OrderService {
				return sellACart(b)
			}
			s := openPair(b)
			s.Stock(".a", 5)
			s.Stock(".b", 5)
			do, where := wire.Hold, "sale-is-held"
			if b.Case.Variant == afterCommit {
				do, where = wire.HoldReply, "sale-is-written-reply-held"
			}
			cart := lab.Buy(checkout.Line{SKU: ".b", Quantity: 1}, checkout.Line{SKU: ".a", Quantity: 1}).With("1")
			snare := b.Trap(s.Proxy(), wire.Trap{On: wire.ToServer, Do: do, Match: b.Committing("sell")})
			a := s.Begin(s.first, "A", cart)
			b.Sprung(snare, where)
			die(b, s.first)
			b.Require(!a.Bought(), "A is told of no order")
			found := s.Sold()
			b.Require(s.Ask(s.second, "A", cart).Bought(), "A asks again with the same key, and has its cart")
			books, sound := s.Judge()
			switch {
			case found == 1 || books[".a"].Sold != books[".b"].Sold:
				return lab.HalfDone
			case !sound:
				return lab.Oversells
			case s.Orders("A") != 1 || books[".a"].Sold != 1:
				return lab.Duplicates
			}
			return lab.Safe
		},
	}
}

// sellACart sells two SKUs to A, whose process dies between them.
func sellACart(b *lab.Testbed) lab.Outcome {
	db := newTables(b, stockTable, "orders (id INT AUTO_INCREMENT PRIMARY KEY, sku VARCHAR(64))")
	b.Exec("mysql", db, "INSERT INTO stock VALUES ('a', 5), ('b', 5)")
	a := newSession(b, db, "A")
	if b.Case.Code == "fixed" {
		a.do("BEGIN")
	}
	a.do("UPDATE stock SET quantity = quantity - 1 WHERE sku = 'a' AND quantity >= 1")
	a.do("INSERT INTO orders (sku) VALUES ('a')")
	b.Note("A", "dies-between-two-lines")
	// The server sees that the connection has gone, and rolls back what is not committed.
	killer := newSession(b, db, "mysql")
	killer.do("KILL CONNECTION ?", a.id)
	sold := killer.count("SELECT COUNT(*) FROM orders")
	left := killer.count("SELECT SUM(quantity) FROM stock FOR UPDATE")
	b.Evidence(lab.Balance, left, "lines-of-the-cart", "sold", sold, "left", left)
	if sold == 1 {
		return lab.HalfDone
	}
	b.Require(sold == 0 && left == 10, "nothing is sold")
	return lab.Safe
}

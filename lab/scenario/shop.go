package scenario

import (
	"errors"
	"fmt"
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest/checkout"
)

// ours returns the case of the order service with that outcome.
func ours(want lab.Outcome, variant string) lab.Case {
	return lab.Case{Code: lab.OrderService, Store: "mysql", Variant: variant, Want: lab.Forecast{Outcome: want}}
}

// byHand returns a case of the lab's own code.
func byHand(name string, want lab.Outcome, variant string) lab.Case {
	return lab.Case{Code: name, Variant: variant, Want: lab.Forecast{Outcome: want}}
}

// within returns the case of a strategy that delays others for at most d, and byHandWithin of the lab's own code.
func within(d time.Duration, strategy, variant string) lab.Case {
	return lab.Case{Strategy: strategy, Variant: variant, Want: lab.Forecast{Outcome: lab.Delays, Within: d}}
}

func byHandWithin(d time.Duration, name, variant string) lab.Case {
	return lab.Case{Code: name, Variant: variant, Want: lab.Forecast{Outcome: lab.Delays, Within: d}}
}

// A pair is two instances of the order service: the first reaches MySQL through a proxy, the second does not.
type pair struct {
	*lab.Shop
	first, second *lab.App
}

// openPair starts a pair.
func openPair(b *lab.Testbed) pair {
	s := b.Shop(1, b.ThroughProxy())
	return pair{s, s.Apps[0], s.Join(1)[0]}
}

// briefly is the shortest time for which the service reserves.
const briefly = time.Second

// one is a line of one unit of the SKU of the case.
func one() checkout.Line { return checkout.Line{Quantity: 1} }

// rowIsWaitedFor waits until the server reports that a transaction of the order service waits for a row of the case's
// SKU.
func rowIsWaitedFor(b *lab.Testbed, who string) {
	waitsForARow(b, b.ServiceDB(), who, "trx_query LIKE ?", "%"+b.SKU+"%")
}

// count runs a query for one number in the session and records both.
func (s *session) count(query string, args ...any) (n int64) {
	s.b.Must(query, s.QueryRowContext(s.b.Ctx, query, args...).Scan(&n))
	s.b.Statement(s.who, s.on, fmt.Sprintf("%s = %d", query, n))
	return n
}

// rows runs a query in the session, records it, and returns how many rows it has found.
func (s *session) rows(query string) (n int) {
	found, err := s.QueryContext(s.b.Ctx, query)
	s.b.Must(query, err)
	for found.Next() {
		n++
	}
	s.b.Must(query, errors.Join(found.Err(), found.Close()))
	s.b.Note(s.who, "rows-found", "statement", query, "rows", n)
	return n
}

// changed runs a statement in the session, and returns how many rows it changed.
func (s *session) changed(query string, args ...any) int64 {
	s.do(query, args...)
	return s.count("SELECT ROW_COUNT()")
}

// sums compares what was received with what is for sale, held and sold, in a shop of the lab's own code.
func sums(b *lab.Testbed, received, available, reserved, sold int64) (right bool) {
	b.Evidence(lab.Balance, available, "law", "received", received, "available", available, "reserved", reserved,
		"sold", sold)
	return received == available+reserved+sold
}

package scenario

import (
	"time"

	"example.com/stock/lab"
	"example.com/stock/loadtest/checkout"
)

// ours returns the case of the order service with that outcome.
func ours(want lab.Outcome, variant string) lab.Case {
	return lab.Case{Code: lab.OrderService, Store: "mysql", Variant: variant, Want: lab.Forecast{Outcome: want}}
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

// die kills an instance that reaches MySQL through the proxy. Its connections break, as the kernel breaks those of a
// dead process: the proxy would keep its own to MySQL.
func die(b *lab.Testbed, app *lab.App) {
	b.Kill(app)
	b.Proxy(lab.NeedMySQL).Cut()
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

// sums compares what was received with what is for sale, held and sold, in a shop of the lab's own code.
func sums(b *lab.Testbed, received, available, reserved, sold int64) (right bool) {
	b.Evidence(lab.Balance, available, "law", "received", received, "available", available, "reserved", reserved,
		"sold", sold)
	return received == available+reserved+sold
}

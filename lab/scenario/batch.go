package scenario

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

// crowd is how many customers wait for one batch.
const crowd = 10

// A heldBatch is an instance with a batch in progress: the sale of A is written, and the proxy holds back the store's
// reply. A crowd waits for the next batch.
type heldBatch struct {
	b     *lab.Testbed
	proxy *wire.Proxy
	apps  []*lab.App // the first has the batches
	a     *lab.Call
	crowd []*lab.Call
	held  *wire.Snare
}

// holdABatch sells to W, as a warm-up, and then to A.
func holdABatch(b *lab.Testbed, units int64) *heldBatch {
	need := lab.Need(b.Store())
	h := &heldBatch{b: b, proxy: b.Proxy(need)}
	h.apps = b.Apps(2, b.Via(need), fmt.Sprintf("STOCK_MERGE_QUEUE=%d", crowd))
	b.Stock(units)
	b.Require(b.Sell(h.apps[0], "W", lab.Request{}).Outcome == loadtest.Accepted, "W is served")
	h.held = b.Trap(h.proxy, wire.Trap{On: wire.ToServer, Do: wire.HoldReply, Match: h.lastMessage()})
	h.a = b.Begin(h.apps[0], "A", lab.Request{Wait: lab.For(lab.Patience)})
	b.Sprung(h.held, "reply-to-a-is-held")
	h.gather()
	return h
}

// gather sends a crowd that waits for the next batch. It needs no clock to see that they wait: of one customer more
// than the queue has room for, one is refused at once. That one is not part of the crowd.
func (h *heldBatch) gather() {
	h.crowd = come(h.b, h.apps[0], "C", crowd+1)
	away := -1
	h.b.Eventually("the queue for the batch is full", func() bool {
		away = slices.IndexFunc(h.crowd, (*lab.Call).Answered)
		return away >= 0
	})
	h.b.Require(h.crowd[away].Reply().Problem == "overloaded", "one is turned away: the others wait")
	h.crowd = slices.Delete(h.crowd, away, away+1)
}

// come sends n customers, called who1, who2 and so on, to an instance.
func come(b *lab.Testbed, app *lab.App, who string, n int) (calls []*lab.Call) {
	for i := range n {
		calls = append(calls, b.Begin(app, fmt.Sprint(who, i+1), lab.Request{Wait: lab.For(lab.Patience)}))
	}
	return calls
}

// answered returns how many of them are told that: a problem, or an outcome.
func answered(calls []*lab.Call, told string) (n int) {
	for _, c := range calls {
		if r := c.Reply(); r.Problem == told || r.Problem == "" && string(r.Outcome) == told {
			n++
		}
	}
	return n
}

// lastMessage matches the message that commits a batch of the case's SKU.
func (h *heldBatch) lastMessage() func([]byte) bool {
	if h.b.Store() == "mysql" {
		return commits
	}
	script, sku := wire.Contains("evalsha"), wire.Contains(h.b.SKU)
	return func(m []byte) bool { return script(m) && sku(m) }
}

// orders matches the message with the orders of a batch of the case's SKU, and stores it in seen.
func (h *heldBatch) orders(seen *[]byte) func([]byte) bool {
	match := h.lastMessage()
	if h.b.Store() == "mysql" {
		insert, sku := wire.Contains("INSERT INTO orders"), wire.Contains(h.b.SKU)
		match = func(m []byte) bool { return insert(m) && sku(m) }
	}
	return func(m []byte) bool {
		if !match(m) {
			return false
		}
		*seen = bytes.Clone(m)
		return true
	}
}

// anID matches the id of an order of the service.
var anID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)

// holdOrders releases A's reply, and holds back the message with the orders of the next batch, which it returns.
func (h *heldBatch) holdOrders() (snare *wire.Snare, sent []byte) {
	snare = h.b.Trap(h.proxy, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: h.orders(&sent)})
	h.letGo()
	h.b.Sprung(snare, "orders-are-held")
	return snare, sent
}

// letGo releases A's reply, so that the batch of the crowd begins.
func (h *heldBatch) letGo() {
	h.held.Release()
	h.b.Require(h.a.Reply().Outcome == loadtest.Accepted, "A is served")
}

// counted records the numbers of orders and of customers.
func counted(b *lab.Testbed, orders, customers int) {
	b.Evidence(lab.Served, orders, "orders-of-customers", "orders", orders, "customers", customers)
}

// naiveOrder returns the order id of customer i of a naive crowd.
func naiveOrder(i int) string { return fmt.Sprintf("order of C%d", i+1) }

package lab

import (
	"fmt"

	"example.com/stock/loadtest"
)

// Stock puts units of the case's SKU in stock.
func (b *Bench) Stock(units int64) {
	app := b.anyApp()
	stock, err := app.client.SetStock(b.Ctx, b.Store(), b.SKU, units)
	b.Must("set the stock", err)
	b.initial, b.epoch = units, stock.Epoch
	b.Note("store", "%d in stock", units)
}

// anyApp is an instance that answers.
func (b *Bench) anyApp() *App {
	for _, app := range b.apps {
		if !app.frozen && app.Pid() != 0 {
			return app
		}
	}
	return b.Apps(1)[0]
}

// A Judgement is what the calls of a case and the store amount to.
type Judgement struct {
	loadtest.Verdict
	Stock  loadtest.Stock
	Orders []loadtest.Order
}

// Lost reports whether stock was lost: units sold that were not taken off it, or more than there were.
func (j Judgement) Lost() bool { return j.RaceSeen }

// Judge compares the replies of all calls with the store, and writes down what it finds. It waits for calls that are under way.
func (b *Bench) Judge() Judgement {
	var j Judgement
	var records []loadtest.Record
	for _, c := range b.calls {
		c.Reply()
		records = append(records, c.record)
	}
	app := b.anyApp()
	var err error
	j.Stock, err = app.client.Stock(b.Ctx, b.Store(), b.SKU)
	b.Must("read the stock", err)
	j.Orders, err = app.client.Orders(b.Ctx, b.Store(), b.SKU)
	b.Must("read the orders", err)
	before := loadtest.Stock{SKU: b.SKU, Store: j.Stock.Store, Quantity: b.initial, Initial: b.initial, Epoch: b.epoch}
	j.Verdict = loadtest.Judge(loadtest.Evidence{
		Records:  records,
		Accounts: []loadtest.Account{{Store: b.Store(), Before: before, After: &j.Stock, Orders: j.Orders, Complete: true}},
		Promise:  loadtest.Promise{Exclusive: b.Promise.Exclusive, Scope: b.Promise.Scope, Fenced: b.Promise.Fenced},
	})
	for _, reason := range j.Reasons {
		if reason.About == loadtest.AboutReplies {
			b.Fatalf("the service contradicts itself: %s", reason.Text)
		}
	}
	b.prove(j)
	return j
}

// prove writes the evidence of a judgement down.
func (b *Bench) prove(j Judgement) {
	for _, c := range b.calls {
		b.Evidence(Answer, c.record.Problem, "%s (%s): %s", c.Who, c.App.Name, Told(c.record.Reply))
	}
	b.Evidence(Balance, map[string]int64{"initial": b.initial, "sold": j.Stock.Sold, "left": j.Stock.Quantity},
		"%d in stock, %d sold, %d left: %s", b.initial, j.Stock.Sold, j.Stock.Quantity, b.sum(j.Stock))
	for _, pair := range j.Certificates {
		b.Evidence(Pair, pair, "orders of %s (%s) and %s (%s) both read version %d with %d and %d left",
			b.who(pair.Orders[0].RequestID), pair.Orders[0].Instance, b.who(pair.Orders[1].RequestID), pair.Orders[1].Instance,
			pair.Version, pair.Orders[0].Read, pair.Orders[1].Read)
	}
	if b.Promise.Fenced && j.Stock.Fence > 0 {
		b.Evidence(Fence, j.Stock.Fence, "the largest fence that the store has seen is %d", j.Stock.Fence)
	}
}

func (b *Bench) sum(s loadtest.Stock) Text {
	switch lost := s.Sold - (b.initial - s.Quantity); {
	case s.Sold > b.initial:
		return Text{fmt.Sprintf("oversold by %d", s.Sold-b.initial), fmt.Sprintf("超卖 %d 件", s.Sold-b.initial)}
	case lost > 0:
		return Text{fmt.Sprintf("%d lost", lost), fmt.Sprintf("丢失 %d 件", lost)}
	case lost < 0:
		return Text{fmt.Sprintf("%d vanished", -lost), fmt.Sprintf("凭空少了 %d 件", -lost)}
	}
	return Text{"it adds up", "账目相符"}
}

// who is the short name of a request.
func (b *Bench) who(requestID string) string {
	for _, c := range b.calls {
		if c.ID == requestID {
			return c.Who
		}
	}
	return requestID
}

package lab

import (
	"slices"

	"example.com/stock/loadtest"
)

// Stock sets the stock of the case's SKU.
func (b *Testbed) Stock(units int64) {
	stock, err := b.anyApp().client.SetStock(b.Ctx, b.Store(), b.SKU, units)
	b.Must("set the stock", err)
	b.initial, b.epoch = units, stock.Epoch
	b.timeline.Record(CaseEvent{Lane: "store", Kind: Note, Left: &units}, say("says.in-stock", "units", units))
}

// anyApp returns the first instance that answers.
func (b *Testbed) anyApp() *App {
	if app, ok := answering(b.apps); ok {
		return app
	}
	return b.Apps(1)[0]
}

// answering returns the first of apps that is neither frozen nor dead.
func answering(apps []*App) (app *App, ok bool) {
	for _, app := range apps {
		if !app.frozen && app.Pid() != 0 {
			return app, true
		}
	}
	return nil, false
}

// A Judgement is the verdict on a case, with the stock and the orders that are its basis.
type Judgement struct {
	loadtest.Verdict
	Stock  loadtest.Stock
	Orders []loadtest.Order
}

// Lost reports whether an update was lost: more units were sold than were deducted, or than were in stock.
func (j Judgement) Lost() bool { return j.RaceSeen }

// Seen returns Oversells if an update was lost, and otherwise Safe.
func (j Judgement) Seen() Outcome {
	if j.Lost() {
		return Oversells
	}
	return Safe
}

// Judge waits for all calls, compares their replies with the store, and records the result as evidence.
func (b *Testbed) Judge() Judgement {
	var j Judgement
	var records []loadtest.Record
	var replayed []string
	for _, c := range b.calls {
		c.Reply()
		if c.record.Replayed {
			replayed = append(replayed, c.record.OrderID)
			continue // the order belongs to the first request with the key
		}
		records = append(records, c.record)
	}
	app := b.anyApp()
	var err error
	j.Stock, err = app.client.Stock(b.Ctx, b.Store(), b.SKU)
	b.Must("read the stock", err)
	j.Orders, err = app.client.Orders(b.Ctx, b.Store(), b.SKU)
	b.Must("read the orders", err)
	for _, id := range replayed {
		there := slices.ContainsFunc(j.Orders, func(o loadtest.Order) bool { return o.OrderID == id })
		b.Require(there, "the order of a replayed reply is in the store: "+id)
	}
	before := loadtest.Stock{SKU: b.SKU, Store: j.Stock.Store, Quantity: b.initial, Initial: b.initial, Epoch: b.epoch}
	j.Verdict = loadtest.Judge(loadtest.Evidence{
		Records: records,
		Accounts: []loadtest.Account{
			{Store: b.Store(), Before: before, After: &j.Stock, Orders: j.Orders, Complete: true},
		},
		Promise: loadtest.Promise{Exclusive: b.Promise.Exclusive, Scope: b.Promise.Scope, Fenced: b.Promise.Fenced},
	})
	for _, reason := range j.Reasons {
		if reason.About == loadtest.AboutReplies {
			b.Fatalf("the service contradicts itself: %s", reason.Text)
		}
	}
	b.writeDown(j)
	return j
}

// writeDown records a judgement as evidence.
func (b *Testbed) writeDown(j Judgement) {
	for _, c := range b.calls {
		b.prove(Answer, c.record.Problem,
			say("says.answer", "who", c.Who, "app", c.App.Name, "answer", Told(c.record.Reply)))
	}
	sold, left := j.Stock.Sold, j.Stock.Quantity
	b.prove(Balance, map[string]int64{"initial": b.initial, "sold": sold, "left": left},
		say("says.balance", "initial", b.initial, "sold", sold, "left", left, "sum", b.sum(j.Stock)))
	for _, pair := range j.Certificates {
		one, other := pair.Orders[0], pair.Orders[1]
		b.prove(Pair, pair, say("says.same-version", "version", pair.Version,
			"one", b.who(one.RequestID), "one_app", one.Instance, "one_left", one.Read,
			"other", b.who(other.RequestID), "other_app", other.Instance, "other_left", other.Read))
	}
	if b.Promise.Fenced && j.Stock.Fence > 0 {
		b.prove(Fence, j.Stock.Fence, say("says.largest-fence", "fence", j.Stock.Fence))
	}
}

// sum compares the units sold with the units that left the stock.
func (b *Testbed) sum(s loadtest.Stock) Text {
	switch lost := s.Sold - (b.initial - s.Quantity); {
	case s.Sold > b.initial:
		return say("sums.oversold", "units", s.Sold-b.initial)
	case lost > 0:
		return say("sums.lost", "units", lost)
	case lost < 0:
		return say("sums.vanished", "units", -lost)
	}
	return say("sums.adds-up")
}

// who returns the short name of a request.
func (b *Testbed) who(requestID string) string {
	for _, c := range b.calls {
		if c.ID == requestID {
			return c.Who
		}
	}
	return requestID
}

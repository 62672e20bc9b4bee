package loadtest_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/loadtest"
)

// The findings, for tables.
const holds, broken, undecided = loadtest.Holds, loadtest.Broken, loadtest.Undecided

// A seller is an inventory service in this process that keeps its promises: every request sells exactly what it asks
// for, or says why not. A cheat changes one thing through its hooks.
type seller struct {
	mu    sync.Mutex
	goods map[string]*good
	n     int           // requests so far
	looks int           // at the orders, since the stock was set
	think time.Duration // 0: a millisecond
	pages time.Duration // to read the list of orders
	mode  struct{ mapped, blind, unlisted bool }

	deduct sell                                           // nil: sell; it is called with mu held
	stock  func(s *seller, g *good, told *loadtest.Stock) // changes the reported stock
	orders list
}

type (
	sell = func(*seller, *good, loadtest.Request) loadtest.Reply
	list = func(s *seller, g *good, told []loadtest.Order) []loadtest.Order
)

// A good is one SKU.
type good struct {
	loadtest.Stock
	list []loadtest.Order
	set  time.Time
}

func (s *seller) URL() string { return "in this process" }

func (s *seller) Strategies(context.Context) ([]loadtest.Strategy, error) {
	return []loadtest.Strategy{
		{Name: "seller", Available: true, Promise: loadtest.Promise{Scope: loadtest.Cluster, Exclusive: true}},
	}, nil
}

func (s *seller) SetStock(_ context.Context, _, sku string, quantity int64) (loadtest.Stock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := &good{set: time.Now(), Stock: loadtest.Stock{
		SKU: sku, Quantity: quantity, Initial: quantity, Version: 1, Epoch: 1,
		Mapped: s.mode.mapped, Unlisted: s.mode.unlisted,
	}}
	if s.mode.mapped {
		g.Version, g.Epoch = 0, 0
	}
	if s.goods == nil {
		s.goods = make(map[string]*good)
	}
	s.goods[sku] = g
	return g.Stock, nil
}

func (s *seller) Stock(_ context.Context, _, sku string) (loadtest.Stock, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.goods[sku]
	told := g.Stock
	if s.stock != nil {
		s.stock(s, g, &told)
	}
	return told, nil
}

// Orders returns the orders that there were at its beginning.
func (s *seller) Orders(ctx context.Context, _, sku string) ([]loadtest.Order, error) {
	if s.mode.unlisted {
		return nil, nil
	}
	s.mu.Lock()
	s.looks++
	g := s.goods[sku]
	told := slices.Clone(g.list)
	if s.orders != nil {
		told = s.orders(s, g, told)
	}
	s.mu.Unlock()
	return told, loadtest.Sleep(ctx, s.pages)
}

func (s *seller) Deduct(_ context.Context, r loadtest.Request) loadtest.Reply {
	time.Sleep(cmp.Or(s.think, time.Millisecond))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if s.deduct != nil {
		return s.deduct(s, s.goods[r.SKU], r)
	}
	return s.sell(s.goods[r.SKU], r)
}

// sell is the correct sale.
func (s *seller) sell(g *good, r loadtest.Request) loadtest.Reply {
	if g.Quantity < r.Quantity {
		return loadtest.Reply{Outcome: loadtest.SoldOut, Status: 409, Instance: "one"}
	}
	return s.book(g, r)
}

// book sells without a check of the stock.
func (s *seller) book(g *good, r loadtest.Request) loadtest.Reply {
	o := loadtest.Order{
		OrderID: fmt.Sprintf("o%d-%d", s.n, len(g.list)), SKU: g.SKU, Quantity: r.Quantity, Read: g.Quantity,
		Remaining: g.Quantity - r.Quantity, Version: g.Version, Epoch: g.Epoch, RequestID: r.RequestID,
		Instance: "one", Blind: s.mode.blind,
	}
	if s.mode.mapped {
		o.Version = uint64(g.Initial - g.Quantity)
	}
	g.list = append(g.list, o)
	g.Quantity -= r.Quantity
	g.Sold += r.Quantity
	g.Version++
	return receiptOf(o)
}

// receiptOf returns the reply for an order.
func receiptOf(o loadtest.Order) loadtest.Reply {
	return loadtest.Reply{
		Outcome: loadtest.Accepted, Status: 200, OrderID: o.OrderID, Instance: o.Instance,
		Receipt: &loadtest.Receipt{
			Read: o.Read, Remaining: o.Remaining, Version: o.Version, Epoch: o.Epoch, Fence: o.Fence, Blind: o.Blind,
		},
	}
}

// last returns the order that was written last.
func (g *good) last() *loadtest.Order { return &g.list[len(g.list)-1] }

// cancel takes back the order at i, and puts its units back.
func (g *good) cancel(i int) {
	g.Quantity, g.Sold = g.Quantity+g.list[i].Quantity, g.Sold-g.list[i].Quantity
	g.list = slices.Delete(g.list, i, i+1)
}

// every reports whether the request is one on which a cheat cheats.
func (s *seller) every(n int) bool { return s.n%n == 0 }

// seventh sells, and then changes something about the seventh sale.
func seventh(change func(s *seller, g *good, r loadtest.Request, told *loadtest.Reply)) *seller {
	return &seller{deduct: func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		if s.n == 7 {
			change(s, g, r, &told)
		}
		return told
	}}
}

// atSecondLook is a seller that changes something when its orders are read for the second time.
func atSecondLook(change func(s *seller, g *good)) *seller {
	return &seller{orders: func(s *seller, g *good, told []loadtest.Order) []loadtest.Order {
		if s.looks == 2 {
			change(s, g)
			return slices.Clone(g.list)
		}
		return told
	}}
}

// splits sells each unit by an order of its own: more of them than were asked for in every fifth sale, and units for
// others between them.
func splits(more, others int64) sell {
	return func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		asked := r.Quantity
		if g.Quantity < asked {
			return loadtest.Reply{Outcome: loadtest.SoldOut, Status: 409}
		}
		if s.every(5) {
			asked += more
		}
		r.Quantity = 1
		first := s.sell(g, r)
		told := *first.Receipt
		for range asked - 1 {
			for range others {
				s.sell(g, loadtest.Request{SKU: r.SKU, Quantity: 1, RequestID: fmt.Sprintf("other-%d", len(g.list))})
			}
			told.Remaining = s.sell(g, r).Remaining
		}
		first.Receipt = &told
		return first
	}
}

// mapped makes s a foreign API.
func mapped(s *seller) *seller {
	s.mode.mapped = true
	return s
}

// retold changes how orders are listed.
func retold(s *seller, change func(i int, o *loadtest.Order)) *seller {
	s.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
		for i := range told {
			change(i, &told[i])
		}
		return told
	}
	return s
}

// once makes the judge look once.
func once() *time.Duration { return new(time.Duration) }

// put runs a load on s by a clock that does not wait, and returns the result. The history of the run gives the same
// verdict.
func put(t *testing.T, s *seller, p loadtest.Plan) *loadtest.Result {
	t.Helper()
	var history bytes.Buffer
	p.History = &history
	r := sold(t, s, p)
	h, err := loadtest.ReadHistory(&history)
	if err != nil {
		t.Fatal(err)
	}
	v, again := &r.Verdict, h.Judge()
	same := func(a, b loadtest.Reason) bool { return a.Text.EN == b.Text.EN } // a history is in English
	if again.Finding != v.Finding || !slices.EqualFunc(again.Reasons, v.Reasons, same) ||
		!again.LookedAt.Equal(v.LookedAt) {
		t.Errorf("the history is judged %s: %v; the run was %s: %v", again.Finding, again.Reasons, v.Finding, v.Reasons)
	}
	return r
}

// sold is put for a seller whose history cannot be read.
func sold(t *testing.T, s *seller, p loadtest.Plan) (r *loadtest.Result) {
	t.Helper()
	p.Strategy, p.Stock, p.Requests = "seller", cmp.Or(p.Stock, 30), cmp.Or(p.Requests, 60)
	p.Concurrency = cmp.Or(p.Concurrency, 4)
	if p.Recheck == nil {
		p.Recheck = new(time.Millisecond)
	}
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = loadtest.Run(t.Context(), s, p, nil); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

package loadtest_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/loadtest"
)

// A seller is an inventory service in this process that keeps its promises: every request sells exactly what it asks
// for, or says why not. A cheat changes one thing through its hooks.
type seller struct {
	mu    sync.Mutex
	goods map[string]*good
	n     int           // requests so far
	think time.Duration // 0: a millisecond
	pages time.Duration // to read the list of orders
	mode  struct{ mapped, blind, unlisted bool }

	deduct func(s *seller, g *good, r loadtest.Request) loadtest.Reply // nil: sell; it is called with mu held
	stock  func(s *seller, g *good, told *loadtest.Stock)              // changes the reported stock
	orders func(s *seller, g *good, told []loadtest.Order) []loadtest.Order
}

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
		SKU:      sku,
		Quantity: quantity,
		Initial:  quantity,
		Version:  1,
		Epoch:    1,
		Mapped:   s.mode.mapped,
		Unlisted: s.mode.unlisted,
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
		OrderID:   fmt.Sprintf("o%d-%d", s.n, len(g.list)),
		SKU:       g.SKU,
		Quantity:  r.Quantity,
		Read:      g.Quantity,
		Remaining: g.Quantity - r.Quantity,
		Version:   g.Version,
		Epoch:     g.Epoch,
		RequestID: r.RequestID,
		Instance:  "one",
		Blind:     s.mode.blind,
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
		Outcome:  loadtest.Accepted,
		Status:   200,
		OrderID:  o.OrderID,
		Instance: o.Instance,
		Receipt: &loadtest.Receipt{
			Read: o.Read, Remaining: o.Remaining, Version: o.Version, Epoch: o.Epoch, Fence: o.Fence, Blind: o.Blind,
		},
	}
}

// last returns the order that was written last.
func (g *good) last() *loadtest.Order { return &g.list[len(g.list)-1] }

// once makes the judge look once.
func once() *time.Duration { return new(time.Duration) }

// put runs a load on s by a clock that does not wait, and returns the result.
func put(t *testing.T, s *seller, p loadtest.Plan) *loadtest.Result {
	t.Helper()
	p.Strategy, p.Concurrency = "seller", max(p.Concurrency, 4)
	if p.Stock == 0 {
		p.Stock = 30
	}
	if p.Requests == 0 {
		p.Requests = 60
	}
	if p.Recheck == nil {
		p.Recheck = new(time.Millisecond)
	}
	var r *loadtest.Result
	synctest.Test(t, func(t *testing.T) {
		var err error
		if r, err = loadtest.Run(t.Context(), s, p, nil); err != nil {
			t.Fatal(err)
		}
	})
	return r
}

// spoken logs what the judge says, for whoever reads the output of go test -v.
func spoken(t *testing.T, kind, name string, v *loadtest.Verdict) {
	t.Helper()
	var said []string
	for _, r := range v.Reasons {
		said = append(said, r.Text.EN)
	}
	t.Logf("%s | %s | %s | %s | %s", kind, name, v.Finding, strings.Join(said, "; "), v.Sentence.EN)
}

// every reports whether the request is one on which a cheat cheats.
func (s *seller) every(n int) bool { return s.n%n == 0 }

// Services with one cheat each: the finding, and the words that the judge must use.
func TestCheats(t *testing.T) {
	type sell = func(*seller, *good, loadtest.Request) loadtest.Reply
	sells := func(f sell) *seller { return &seller{deduct: f} }
	refused := loadtest.Reply{Outcome: loadtest.SoldOut, Status: 409}
	// deniedWith sells and denies it.
	deniedWith := func(o loadtest.Outcome) *seller {
		return sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if s.n == 7 {
				return loadtest.Reply{Outcome: o}
			}
			return told
		})
	}
	// extra books a second order with every fifth sale, under that request id.
	extra := func(id func(loadtest.Request) string) *seller {
		return sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if r.RequestID = id(r); s.every(5) {
				s.sell(g, r)
			}
			return told
		})
	}
	// quotes changes the receipt in the reply.
	quotes := func(change func(*loadtest.Receipt)) *seller {
		return sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if s.n == 7 {
				change(told.Receipt)
			}
			return told
		})
	}
	// tenth answers "sold out" to every tenth request while there is stock.
	tenth := func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		if s.every(10) && g.Quantity >= r.Quantity {
			return refused
		}
		return s.sell(g, r)
	}
	blindTenth := sells(tenth)
	blindTenth.mode.mapped, blindTenth.mode.blind, blindTenth.mode.unlisted = true, true, true
	for _, row := range []struct {
		name string
		s    *seller
		plan loadtest.Plan
		want loadtest.Finding
		says string
	}{
		{"sells one more than there is", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if g.Quantity == 0 && g.Sold == g.Initial {
				return s.book(g, r)
			}
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Broken, "oversold by 1 unit"},
		{"takes two units for one", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			r.Quantity = 2
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Broken, "misserved"},
		{"delivers one unit of three", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			r.Quantity = 1
			return s.sell(g, r)
		}), loadtest.Plan{Quantity: 3}, loadtest.Broken, "misserved"},
		{
			"sells one request twice", extra(func(r loadtest.Request) string { return r.RequestID }),
			loadtest.Plan{},
			loadtest.Broken, "beyond the first of one request",
		},
		{
			"books an order that nobody asked for", extra(func(r loadtest.Request) string { return "x" + r.RequestID }),
			loadtest.Plan{},
			loadtest.Undecided, "foreign",
		},
		{
			"books an order of no request", extra(func(loadtest.Request) string { return "" }),
			loadtest.Plan{},
			loadtest.Undecided, "of no request",
		},
		{"tells every tenth that all is sold", sells(tenth), loadtest.Plan{}, loadtest.Broken, "sold out although"},
		{"the same, and tells nothing else", blindTenth, loadtest.Plan{}, loadtest.Broken, "sold out although"},
		{
			"the same, in a run too large to search", sells(tenth),
			loadtest.Plan{Requests: 12_000, Stock: 11_000},
			loadtest.Broken, "sold out although",
		},
		{"keeps the last unit", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if g.Quantity == 1 {
				return refused
			}
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Broken, "sold out although"},
		{"accepts, and does nothing", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				return receiptOf(loadtest.Order{
					OrderID: "none", Read: g.Quantity, Remaining: g.Quantity - 1,
					Version: g.Version, Epoch: 1,
				})
			}
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Broken, "phantoms"},
		{"takes the unit off and books no order", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if s.n == 7 {
				g.list, g.Sold = g.list[:len(g.list)-1], g.Sold-1
			}
			return told
		}), loadtest.Plan{}, loadtest.Broken, "phantoms"},
		{"books the order and takes nothing off", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if s.n == 7 {
				g.Quantity++
			}
			return told
		}), loadtest.Plan{}, loadtest.Broken, "did not read what the order before wrote"},
		{"says busy, and has sold", deniedWith(loadtest.Busy), loadtest.Plan{}, loadtest.Broken, "denied"},
		{"says sold out, and has sold", deniedWith(loadtest.SoldOut), loadtest.Plan{}, loadtest.Broken, "denied"},
		{"fails, and has sold", deniedWith(loadtest.Failed), loadtest.Plan{}, loadtest.Broken, "denied"},
		{"gives two customers one order", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				return receiptOf(*g.last())
			}
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Broken, "the order of another reply"},
		{
			"says that it read 77", quotes(func(r *loadtest.Receipt) { r.Read = 77 }),
			loadtest.Plan{},
			loadtest.Broken, "misquoted",
		},
		{
			"says that more remains", quotes(func(r *loadtest.Receipt) { r.Remaining++ }),
			loadtest.Plan{},
			loadtest.Broken, "misquoted",
		},
		{
			"says another version", quotes(func(r *loadtest.Receipt) { r.Version += 5 }),
			loadtest.Plan{},
			loadtest.Broken, "misquoted",
		},
		{
			"says another epoch", quotes(func(r *loadtest.Receipt) { r.Epoch = 9 }),
			loadtest.Plan{},
			loadtest.Broken, "set again",
		},
		{
			"writes another customer's request on the order",
			sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
				told := s.sell(g, r)
				if s.n == 7 {
					g.last().RequestID = g.list[0].RequestID
				}
				return told
			}),
			loadtest.Plan{},
			loadtest.Broken, "swapped",
		},
		{
			"has two sales in one place of a batch",
			sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
				told := s.sell(g, r)
				if told.Receipt != nil {
					told.Batch = &loadtest.Batch{ID: "b", Place: min(s.n, 7), Size: 100}
				}
				return told
			}),
			loadtest.Plan{},
			loadtest.Broken, "misplaced",
		},
		{"lets two read the same", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				o := g.last()
				g.Quantity, g.Version = o.Read, o.Version
			}
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Broken, "read the same version"},
		{"takes off more than it sells", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if s.n == 7 {
				g.Quantity--
				g.last().Remaining, told.Remaining = g.Quantity, g.Quantity
			}
			return told
		}), loadtest.Plan{}, loadtest.Broken, "did not write the quantity read less the quantity sold"},
		{"loses a unit here and finds one there", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			switch s.n {
			case 7:
				g.Quantity--
			case 9:
				g.Quantity++
			}
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Broken, "did not read what the order before wrote"},
		{"hides an order", &seller{orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
			return slices.Delete(told, 3, 4)
		}}, loadtest.Plan{}, loadtest.Broken, "phantoms"},
		{"hides an order from a slow list", &seller{
			pages: 4 * time.Second,
			orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				return slices.Delete(told, 3, 4)
			},
		}, loadtest.Plan{}, loadtest.Broken, "phantoms"},
		{"shows one unit more than there is", &seller{stock: func(_ *seller, _ *good, told *loadtest.Stock) {
			told.Quantity++
		}}, loadtest.Plan{Requests: 20}, loadtest.Broken, "1 unit lost"},
		{"shows one unit less", &seller{stock: func(_ *seller, _ *good, told *loadtest.Stock) {
			told.Quantity--
		}}, loadtest.Plan{Requests: 20}, loadtest.Broken, "1 unit vanished"},
		{"counts what it sold wrongly", &seller{stock: func(_ *seller, _ *good, told *loadtest.Stock) {
			told.Sold += 3
		}}, loadtest.Plan{}, loadtest.Undecided, "its orders hold"},
		{"lets a fence go back", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if told.Outcome == loadtest.Accepted {
				fence := uint64(100 + s.n)
				if s.n == 7 {
					fence = 50
				}
				told.Fence, g.last().Fence = fence, fence
			}
			return told
		}), loadtest.Plan{}, loadtest.Broken, "smaller fence"},
		{"sets the stock again in between", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				g.Quantity, g.Sold, g.list, g.Epoch = g.Initial, 0, nil, 2
			}
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Undecided, "set again"},
		{"sells from the shelf beside it", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			for sku, other := range s.goods {
				if s.n == 7 && sku != r.SKU {
					return s.sell(other, r)
				}
			}
			return s.sell(g, r)
		}), loadtest.Plan{SKUs: 2}, loadtest.Broken, "phantoms"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if testing.Short() && row.plan.Requests > loadtest.MaxLinear {
				t.Skip("long: make verify")
			}
			t.Parallel()
			v := put(t, row.s, row.plan).Verdict
			spoken(t, "cheat", row.name, &v)
			if v.Finding != row.want || v.Kept {
				t.Errorf("finding %s, kept %v, want %s: %v", v.Finding, v.Kept, row.want, v.Reasons)
			}
			says := func(r loadtest.Reason) bool { return strings.Contains(r.Text.EN, row.says) }
			if !slices.ContainsFunc(v.Reasons, says) {
				t.Errorf("no reason says %q: %v", row.says, v.Reasons)
			}
		})
	}
}

// A service that serves the past: its versions are right, but customers who came later are served before customers who
// were already answered. It keeps the first sale open until three others have been answered.
func TestCheatOfThePast(t *testing.T) {
	tape := newTape(10)
	for range 4 {
		tape.next(1)
	}
	for i := range tape.records {
		at := noon.Add(time.Duration(i) * time.Second)
		tape.records[i].SentAt, tape.records[i].DoneAt = at, at.Add(time.Millisecond)
	}
	first, last := &tape.records[0], &tape.records[3]
	first.SentAt, first.DoneAt, last.SentAt, last.DoneAt = last.SentAt, last.DoneAt, first.SentAt, first.DoneAt
	v := tape.judge(loadtest.Cluster)
	if v.Finding != loadtest.Broken || len(v.Reasons) != 1 ||
		!strings.Contains(v.Reasons[0].Text.EN, "was sent after request") {
		t.Errorf("finding %s: %v", v.Finding, v.Reasons)
	}
}

// Cheats that cannot be seen from outside. docs/verdict.md lists them; this test keeps that list true.
func TestUnseeable(t *testing.T) {
	for name, s := range map[string]*seller{
		"sells one and gives it back in secret": {deduct: func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				s.sell(g, r)
				g.Quantity, g.Sold, g.Version, g.list = g.Quantity+1, g.Sold-1, g.Version-1, g.list[:len(g.list)-1]
				return loadtest.Reply{Outcome: loadtest.Failed, Status: 422}
			}
			return s.sell(g, r)
		}},
		"says busy though nobody was there": {deduct: func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.every(10) {
				return loadtest.Reply{Outcome: loadtest.Busy, Status: 503}
			}
			return s.sell(g, r)
		}},
	} {
		if v := put(t, s, loadtest.Plan{}).Verdict; v.Finding != loadtest.Holds {
			t.Errorf("%s: %s: %v; now that it is seen, say so in docs/verdict.md", name, v.Finding, v.Reasons)
		}
	}
}

package loadtest_test

import (
	"slices"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// Services with one cheat each: the finding, and what the verdict shows of it (see wrongNumbers).
func TestCheats(t *testing.T) {
	sells := func(f sell) *seller { return &seller{deduct: f} }
	refused := loadtest.Reply{Outcome: loadtest.SoldOut, Status: 409}
	deniedWith := func(o loadtest.Outcome) *seller {
		return seventh(func(_ *seller, _ *good, _ loadtest.Request, told *loadtest.Reply) {
			*told = loadtest.Reply{Outcome: o}
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
	quotes := func(change func(*loadtest.Receipt)) *seller {
		return seventh(func(_ *seller, _ *good, _ loadtest.Request, told *loadtest.Reply) { change(told.Receipt) })
	}
	takes := func(quantity int64) *seller {
		return sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			r.Quantity = quantity
			return s.sell(g, r)
		})
	}
	// tenth answers "sold out" to every tenth request while there is stock.
	tenth := func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		if s.every(10) && g.Quantity >= r.Quantity {
			return refused
		}
		return s.sell(g, r)
	}
	blindTenth := mapped(sells(tenth))
	blindTenth.mode.blind, blindTenth.mode.unlisted = true, true
	hides := func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order { return slices.Delete(told, 3, 4) }
	tells := func(change func(*loadtest.Stock)) *seller {
		return &seller{stock: func(_ *seller, _ *good, told *loadtest.Stock) { change(told) }}
	}
	takesBackOfNobody := atSecondLook(func(_ *seller, g *good) { g.cancel(len(g.list) - 1) })
	takesBackOfNobody.deduct = func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		if r.RequestID = "nobody"; s.n == 4 {
			s.sell(g, r)
		}
		return told
	}
	twice := func() *seller {
		return mapped(seventh(func(s *seller, g *good, r loadtest.Request, _ *loadtest.Reply) { s.sell(g, r) }))
	}
	refusesAndSells := func() *seller {
		return mapped(seventh(func(_ *seller, _ *good, _ loadtest.Request, told *loadtest.Reply) {
			*told = loadtest.Reply{Outcome: loadtest.Failed, Status: 422}
		}))
	}
	unreferenced := func(_ int, o *loadtest.Order) { o.RequestID = "" }
	none := loadtest.Plan{}
	four := loadtest.Plan{Stock: 4, Requests: 4, Concurrency: 1}
	fourOfNine := loadtest.Plan{Stock: 9, Requests: 4, Concurrency: 1}
	three := loadtest.Plan{Quantity: 3, Stock: 90, Requests: 40}
	for _, row := range []struct {
		name  string
		s     *seller
		plan  loadtest.Plan
		want  loadtest.Finding
		shows string
	}{
		{"sells one more than there is", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if g.Quantity == 0 && g.Sold == g.Initial {
				return s.book(g, r)
			}
			return s.sell(g, r)
		}), none, broken, "oversold_units=1"},
		{"takes two units for one", takes(2), none, broken, "misserved"},
		{"delivers one unit of three", takes(1), loadtest.Plan{Quantity: 3}, broken, "misserved"},
		{
			"sells one request twice", extra(func(r loadtest.Request) string { return r.RequestID }), none,
			broken, "duplicates",
		},
		{
			"books an order that nobody asked for", extra(func(r loadtest.Request) string { return "x" + r.RequestID }),
			none, undecided, "foreign",
		},
		{
			"books an order of no request", extra(func(loadtest.Request) string { return "" }), none,
			undecided, "foreign",
		},
		{"tells every tenth that all is sold", sells(tenth), none, broken, "false_sold_out"},
		{"the same, and tells nothing else", blindTenth, none, broken, "false_sold_out"},
		{"accepts, and does nothing", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				return receiptOf(loadtest.Order{
					OrderID: "none", Read: g.Quantity, Remaining: g.Quantity - 1, Version: g.Version, Epoch: 1,
				})
			}
			return s.sell(g, r)
		}), none, broken, "phantoms=1"},
		{
			"books the order and takes nothing off",
			seventh(func(_ *seller, g *good, _ loadtest.Request, _ *loadtest.Reply) { g.Quantity++ }), none, broken,
			"stale_reads=1",
		},
		{"says busy, and has sold", deniedWith(loadtest.Busy), none, broken, "denied=1 busy=1"},
		{"says sold out, and has sold", deniedWith(loadtest.SoldOut), none, broken, "denied=1"},
		{"gives two customers one order", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				return receiptOf(*g.last())
			}
			return s.sell(g, r)
		}), none, broken, "phantoms=1"},
		{"says that it read 77", quotes(func(r *loadtest.Receipt) { r.Read = 77 }), none, broken, "misquoted=1"},
		{"says that more remains", quotes(func(r *loadtest.Receipt) { r.Remaining++ }), none, broken, "misquoted=1"},
		{"says another version", quotes(func(r *loadtest.Receipt) { r.Version += 5 }), none, broken, "misquoted=1"},
		{
			"says another epoch", quotes(func(r *loadtest.Receipt) { r.Epoch = 9 }), none, broken,
			"remaining_known=false",
		},
		{
			"writes another customer's request on the order",
			seventh(func(_ *seller, g *good, _ loadtest.Request, _ *loadtest.Reply) {
				g.last().RequestID = g.list[0].RequestID
			}), none, broken, "swapped=1",
		},
		{
			"has two sales in one place of a batch", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
				told := s.sell(g, r)
				if told.Receipt != nil {
					told.Batch = &loadtest.Batch{ID: "b", Place: min(s.n, 7), Size: 100}
				}
				return told
			}), none, broken, "misplaced",
		},
		{"lets two read the same", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				g.Quantity, g.Version = g.last().Read, g.last().Version
			}
			return s.sell(g, r)
		}), none, broken, "collisions=1 certificates=1"},
		{
			"takes off more than it sells",
			seventh(func(_ *seller, g *good, _ loadtest.Request, told *loadtest.Reply) {
				g.Quantity--
				g.last().Remaining, told.Remaining = g.Quantity, g.Quantity
			}), none, broken, "lost_units=-1",
		},
		{"loses a unit here and finds one there", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			switch s.n {
			case 7:
				g.Quantity--
			case 9:
				g.Quantity++
			}
			return s.sell(g, r)
		}), none, broken, "stale_reads=2 lost_units=0"},
		{"hides an order", &seller{orders: hides}, none, broken, "phantoms=1"},
		{"hides an order from a slow list", &seller{pages: 4 * time.Second, orders: hides}, none, broken, "phantoms=1"},
		{
			"shows one unit more than there is", tells(func(told *loadtest.Stock) { told.Quantity++ }),
			loadtest.Plan{Requests: 20},
			broken, "lost_units=1",
		},
		{
			"shows one unit less", tells(func(told *loadtest.Stock) { told.Quantity-- }),
			loadtest.Plan{Requests: 20},
			broken, "lost_units=-1",
		},
		{
			"counts what it sold wrongly", tells(func(told *loadtest.Stock) { told.Sold += 3 }), none,
			undecided, "lost_units=0",
		},
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
		}), none, broken, "fence_drops=1"},
		{"sets the stock again in between", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n == 7 {
				g.Quantity, g.Sold, g.list, g.Epoch = g.Initial, 0, nil, 2
			}
			return s.sell(g, r)
		}), none, undecided, "remaining_known=false"},
		{"sells from the shelf beside it", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			for sku, other := range s.goods {
				if s.n == 7 && sku != r.SKU {
					return s.sell(other, r)
				}
			}
			return s.sell(g, r)
		}), loadtest.Plan{SKUs: 2}, broken, "phantoms=1"},

		// What they sold they take back once they were looked at.
		{
			"cancels an order that was seen", atSecondLook(func(_ *seller, g *good) { g.cancel(2) }), four,
			broken, "undone=1",
		},
		{
			"changes an order that was seen", atSecondLook(func(_ *seller, g *good) { g.list[2].Quantity = 2 }), four,
			broken,
			"undone=1",
		},
		{
			"gives the order to somebody else", atSecondLook(func(_ *seller, g *good) { g.list[2].RequestID = "x" }),
			four,
			broken, "undone=1",
		},
		{
			"puts a unit back that was sold", atSecondLook(func(_ *seller, g *good) { g.Quantity++ }), four, broken,
			"undone=0 lost_units=1",
		},
		{"takes back an order of nobody", takesBackOfNobody, fourOfNine, undecided, "undone=0"},
		{"sells to nobody once it was looked at", atSecondLook(func(s *seller, g *good) {
			s.book(g, loadtest.Request{SKU: g.SKU, Quantity: 1, RequestID: "nobody"})
		}), fourOfNine, undecided, "undone=0 foreign=1"},

		// They serve a request by several orders.
		{"one order for each unit but one", mapped(sells(splits(-1, 0))), three, broken, "misserved"},
		{"one order for each unit and one more", mapped(sells(splits(1, 0))), three, broken, "misserved"},
		{
			"one order for each unit, and says that more is left",
			sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
				told := splits(0, 0)(s, g, r)
				if s.n == 7 {
					told.Remaining++
				}
				return told
			}), three, broken, "misquoted=1",
		},

		// Without references to requests the verdict says what the mapping lacks.
		{"sells a request twice, with references", twice(), none, broken, "duplicates=1"},
		{"sells a request twice, without", retold(twice(), unreferenced), none, undecided, "foreign=1 limits=2"},
		{"answers 422, and has sold, with references", refusesAndSells(), none, broken, "denied=1"},
		{
			"answers 422, and has sold, without", retold(refusesAndSells(), unreferenced), none,
			undecided, "foreign=1 limits=2",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := put(t, row.s, row.plan).Verdict
			if v.Finding != row.want || v.Kept || len(v.Reasons) == 0 {
				t.Errorf("finding %s, kept %v, want %s: %v", v.Finding, v.Kept, row.want, v.Reasons)
			}
			for _, wrong := range wrongNumbers(t, v, row.shows) {
				t.Error(wrong)
			}
		})
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
		if v := put(t, s, loadtest.Plan{}).Verdict; v.Finding != holds {
			t.Errorf("%s: %s: %v; now that it is seen, say so in docs/verdict.md", name, v.Finding, v.Reasons)
		}
	}
}

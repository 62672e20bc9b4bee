package loadtest_test

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// lists returns a seller whose orders and stock another function changes at the given look. The looks count from 1.
func lists(from int, change func(s *seller, g *good)) *seller {
	looks := 0
	return &seller{orders: func(s *seller, g *good, told []loadtest.Order) []loadtest.Order {
		if looks++; looks == from {
			change(s, g)
			return slices.Clone(g.list)
		}
		return told
	}}
}

// cancel takes back the order at i, and puts its units back.
func (g *good) cancel(i int) {
	g.Quantity, g.Sold = g.Quantity+g.list[i].Quantity, g.Sold-g.list[i].Quantity
	g.list = slices.Delete(g.list, i, i+1)
}

// Services that take back what they have sold once they were looked at, and honest ones that look alike.
func TestUndone(t *testing.T) {
	foreign := lists(2, func(_ *seller, g *good) { g.cancel(len(g.list) - 1) })
	foreign.deduct = func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		if s.n == 4 {
			r.RequestID = "nobody"
			s.sell(g, r)
		}
		return told
	}
	shared := lists(2, func(_ *seller, g *good) { g.cancel(len(g.list) - 1) })
	shared.deduct = foreign.deduct
	stale, calls := &seller{}, 0
	stale.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
		if calls++; calls == 2 { // the second look comes to a replica that is behind
			return told[:1]
		}
		return told
	}
	lost := lists(2, func(_ *seller, g *good) { g.cancel(len(g.list) - 1) })
	lost.deduct = func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		if s.n == 4 {
			return loadtest.Reply{Outcome: loadtest.Unknown}
		}
		return told
	}
	later := lists(2, func(s *seller, g *good) {
		s.book(g, loadtest.Request{SKU: g.SKU, Quantity: 1, RequestID: "nobody"})
	})
	plan := loadtest.Plan{Stock: 4, Requests: 4, Concurrency: 1}
	few := plan
	few.Stock = 9
	many := few
	many.Shared = true
	for _, row := range []struct {
		name   string
		s      *seller
		plan   loadtest.Plan
		want   loadtest.Finding
		says   string
		undone int
	}{
		{
			"cancels an order that was seen", lists(2, func(_ *seller, g *good) { g.cancel(2) }), plan,
			loadtest.Broken, "undone: 1 order of an accepted request was", 1,
		},
		{
			"changes an order that was seen", lists(2, func(_ *seller, g *good) { g.list[2].Quantity = 2 }), plan,
			loadtest.Broken, "undone: 1 order of an accepted request was", 1,
		},
		{
			"gives the order to somebody else", lists(2, func(_ *seller, g *good) { g.list[2].RequestID = "x" }), plan,
			loadtest.Broken, "undone: 1 order of an accepted request was", 1,
		},
		{
			"puts a unit back that was sold", lists(2, func(_ *seller, g *good) { g.Quantity++ }), plan,
			loadtest.Broken, "1 unit lost", 0,
		},
		{"takes back an order of nobody", foreign, few, loadtest.Undecided, "changed at a later one: o4-4 of", 0},
		{"sells to nobody once it was looked at", later, few, loadtest.Undecided, "foreign: 1 order", 0},
		{"others take back what they bought, and may", shared, many, loadtest.Holds, "", 0},
		{"is looked at through a replica that is behind", stale, plan, loadtest.Holds, "", 0},
		{"cancels an order of which the customer had no answer", lost, few, loadtest.Holds, "", 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			var history bytes.Buffer
			row.plan.History = &history
			r := put(t, row.s, row.plan)
			v := r.Verdict
			kind := "cheat"
			if row.want == loadtest.Holds {
				kind = "honest"
			}
			spoken(t, kind, row.name, &v)
			says := func(r loadtest.Reason) bool { return strings.Contains(r.Text.EN, row.says) }
			if v.Finding != row.want || v.Undone != row.undone ||
				row.says != "" && !slices.ContainsFunc(v.Reasons, says) {
				t.Errorf("finding %s, want %s; undone %d, want %d; want %q: %v", v.Finding, row.want, v.Undone,
					row.undone, row.says, v.Reasons)
			}
			if v.LookedAt.IsZero() || v.LookedMS <= 0 {
				t.Errorf("looked until %v, %v ms after the last reply", v.LookedAt, v.LookedMS)
			}
			h, err := loadtest.ReadHistory(&history)
			if err != nil {
				t.Fatal(err)
			}
			if again := h.Judge(); again.Finding != v.Finding || !slices.Equal(again.Reasons, v.Reasons) ||
				!again.LookedAt.Equal(v.LookedAt) {
				t.Errorf("the history is judged %s: %v; the run was %s: %v", again.Finding, again.Reasons, v.Finding,
					v.Reasons)
			}
		})
	}
}

// The second look comes a second after the first, unless the plan says when. What was proved needs none.
func TestRecheck(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		plan loadtest.Plan
		s    *seller
		want int // looks
	}{
		{loadtest.Plan{}, &seller{}, 2},
		{loadtest.Plan{Recheck: new(time.Duration)}, &seller{}, 1},
		{loadtest.Plan{}, &seller{deduct: func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			s.book(g, r)
			return s.book(g, r)
		}}, 1},
	} {
		var looks []time.Time
		row.s.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
			looks = append(looks, time.Now())
			return told
		}
		row.plan.Strategy, row.plan.Stock, row.plan.Requests = "seller", 9, 3
		synctest.Test(t, func(t *testing.T) {
			r, err := loadtest.Run(t.Context(), row.s, row.plan, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(looks) != row.want || row.want == 2 && looks[1].Sub(looks[0]) < loadtest.Recheck {
				t.Errorf("looked at %v, want %d looks; %s", looks, row.want, r.Verdict.Finding)
			}
		})
	}
	_, err := loadtest.Run(t.Context(), &seller{}, loadtest.Plan{
		Strategy: "seller", Requests: 1, Recheck: new(-time.Second),
	}, nil)
	if err == nil || err.Error() != "recheck: must be from 0s (look once) to 1h0m0s, is -1s" {
		t.Error(err)
	}
}

// One request may be served by several orders, such as one for each unit.
func TestSplit(t *testing.T) {
	type sell = func(*seller, *good, loadtest.Request) loadtest.Reply
	// split sells each unit by an order of its own. others sell between the units.
	split := func(more, others int64) sell {
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
					other := loadtest.Request{SKU: r.SKU, Quantity: 1, RequestID: fmt.Sprintf("other-%d", len(g.list))}
					s.sell(g, other)
				}
				told.Remaining = s.sell(g, r).Remaining
			}
			first.Receipt = &told
			return first
		}
	}
	with := func(f sell, change func(*seller)) *seller {
		s := &seller{deduct: f}
		change(s)
		return s
	}
	// listed hides what the orders read: only the replies tell.
	listed := func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
		for i := range told {
			told[i].Read, told[i].Remaining, told[i].Version, told[i].Blind = 0, 0, 0, true
		}
		return told
	}
	plan := loadtest.Plan{Quantity: 3, Stock: 90, Requests: 40}
	shared := plan
	shared.Shared, shared.Stock = true, 300
	for _, row := range []struct {
		name string
		s    *seller
		plan loadtest.Plan
		want loadtest.Finding
		says string
	}{
		{"one order for each unit", with(split(0, 0), func(*seller) {}), plan, loadtest.Holds, ""},
		{
			"one order for each unit, mapped", with(split(0, 0), func(s *seller) { s.mode.mapped = true }), plan,
			loadtest.Holds, "",
		},
		{"one for each unit, and orders do not tell what they read", with(split(0, 0), func(s *seller) {
			s.mode.mapped, s.orders = true, listed
		}), plan, loadtest.Holds, ""},
		{
			"nor do the replies", with(split(0, 0), func(s *seller) { s.mode.mapped, s.mode.blind = true, true }),
			plan, loadtest.Holds, "",
		},
		{
			"one for each unit, while others buy", with(split(0, 1), func(s *seller) { s.mode.mapped = true }), shared,
			loadtest.Holds, "",
		},
		{"one order for each unit, and a proxy replaces request ids", with(split(0, 0), func(s *seller) {
			s.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				for i := range told {
					told[i].RequestID = "proxy-" + told[i].RequestID
				}
				return told
			}
		}), plan, loadtest.Holds, ""},
		{"one order for each unit, and replies are lost", with(
			func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
				told := split(0, 0)(s, g, r)
				if s.every(7) {
					return loadtest.Reply{Outcome: loadtest.Unknown}
				}
				return told
			}, func(*seller) {}), plan, loadtest.Holds, ""},
		{
			"one order for each unit but one", with(split(-1, 0), func(s *seller) { s.mode.mapped = true }), plan,
			loadtest.Broken, "asked for 3, and order o5-12 took 2",
		},
		{
			"one order for each unit and one more", with(split(1, 0), func(s *seller) { s.mode.mapped = true }), plan,
			loadtest.Broken, "asked for 3, and order o5-12 took 4",
		},
		{"one order for each unit, and says that more is left", with(
			func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
				told := split(0, 0)(s, g, r)
				if s.n == 7 {
					told.Remaining++
				}
				return told
			}, func(*seller) {}), plan, loadtest.Broken, "misquoted"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			v := put(t, row.s, row.plan).Verdict
			kind := "honest"
			if row.want == loadtest.Broken {
				kind = "cheat"
			}
			spoken(t, kind, row.name, &v)
			says := func(r loadtest.Reason) bool { return strings.Contains(r.Text.EN, row.says) }
			if v.Finding != row.want || row.says != "" && !slices.ContainsFunc(v.Reasons, says) {
				t.Errorf("finding %s, want %s and %q: %v", v.Finding, row.want, row.says, v.Reasons)
			}
		})
	}
}

// Where orders do not tell their requests, the verdict names what the mapping must have so that these can be judged.
func TestWithoutReference(t *testing.T) {
	twice := func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		if s.n == 7 {
			s.sell(g, r)
		}
		return told
	}
	refused := func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		if s.n == 7 {
			return loadtest.Reply{Outcome: loadtest.Failed, Status: 422}
		}
		return told
	}
	for _, row := range []struct {
		name   string
		deduct func(*seller, *good, loadtest.Request) loadtest.Reply
		refs   bool
		want   loadtest.Finding
		says   string
	}{
		{
			"sells a request twice (c-replay-twice), without references", twice, false, loadtest.Undecided,
			"add orders.request_id to the mapping, and {{request_id}} to the path or body of deduct",
		},
		{
			"sells a request twice (c-replay-twice), with references", twice, true, loadtest.Broken,
			"1 order beyond the first of one request",
		},
		{
			"answers 422, and has sold, without references", refused, false, loadtest.Undecided,
			"add orders.request_id to the mapping, and {{request_id}} to the path or body of deduct",
		},
		{"answers 422, and has sold, with references", refused, true, loadtest.Broken, "denied: 1 refused"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := &seller{deduct: row.deduct}
			s.mode.mapped = true
			if !row.refs {
				s.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
					for i := range told {
						told[i].RequestID = ""
					}
					return told
				}
			}
			v := put(t, s, loadtest.Plan{}).Verdict
			spoken(t, "cheat", row.name, &v)
			says := func(r loadtest.Reason) bool { return strings.Contains(r.Text.EN, row.says) }
			if v.Finding != row.want || !slices.ContainsFunc(v.Reasons, says) {
				t.Errorf("finding %s, want %s and %q: %v", v.Finding, row.want, row.says, v.Reasons)
			}
			limit := func(l words.Text) bool { return strings.Contains(l.EN, "orders.request_id") }
			if slices.ContainsFunc(v.Limits, limit) == row.refs {
				t.Errorf("limits %v", v.Limits)
			}
		})
	}
}

// A service that redirects has not said that it sold nothing: the verdict says where the redirect leads.
func TestRedirect(t *testing.T) {
	t.Parallel()
	s := &seller{deduct: func(*seller, *good, loadtest.Request) loadtest.Reply {
		return loadtest.Reply{Outcome: loadtest.Failed, Status: 307, Location: "https://shop.example/buy"}
	}}
	v := put(t, s, loadtest.Plan{}).Verdict
	spoken(t, "honest", "redirects every request", &v)
	want := "nothing was sold here: 60 requests were redirected to https://shop.example/buy (status 307)"
	if v.Finding != loadtest.Undecided || len(v.Reasons) != 1 || !strings.HasPrefix(v.Reasons[0].Text.EN, want) {
		t.Errorf("%s: %v", v.Finding, v.Reasons)
	}
}

// No request id tells that a load test sent it: each is a UUID, and they have no beginning in common.
func TestRequestIDsHaveNoMark(t *testing.T) {
	t.Parallel()
	var ids []string
	s := &seller{deduct: func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		ids = append(ids, r.RequestID)
		return s.sell(g, r)
	}}
	put(t, s, loadtest.Plan{})
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	begin := make(map[string]bool)
	for _, id := range ids {
		if !form.MatchString(id) {
			t.Errorf("%q", id)
		}
		begin[id[:8]] = true
	}
	if len(ids) != 60 || len(begin) != 60 {
		t.Errorf("%d ids have %d beginnings", len(ids), len(begin))
	}
}

// An accepted request whose reply has no order number does not make another order without one its own.
func TestUndoneWithoutANumber(t *testing.T) {
	nameless := lists(2, func(_ *seller, g *good) { g.cancel(len(g.list) - 1) })
	nameless.deduct = func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		told.OrderID = ""
		if s.n == 4 {
			s.sell(g, loadtest.Request{SKU: r.SKU, Quantity: r.Quantity, RequestID: "nobody"})
			g.list[len(g.list)-1].OrderID = ""
		}
		return told
	}
	v := put(t, nameless, loadtest.Plan{Stock: 9, Requests: 4, Concurrency: 1}).Verdict
	if v.Finding != loadtest.Undecided || v.Undone != 0 {
		t.Errorf("finding %s, undone %d: %v", v.Finding, v.Undone, v.Reasons)
	}
}

package loadtest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// late returns the time since a hook was first called after the last sale. A target that reports late does so after
// that time.
type late struct{ since time.Time }

func (l *late) over(after time.Duration) bool {
	if l.since.IsZero() {
		l.since = time.Now()
	}
	return time.Since(l.since) >= after
}

// Correct services that are hard to judge: none of them may be called broken.
func TestAwkward(t *testing.T) {
	type sell = func(*seller, *good, loadtest.Request) loadtest.Reply
	sells := func(f sell) *seller { return &seller{deduct: f} }
	// silent loses the reply to every seventh request, which has sold or has not.
	silent := func(sold bool) *seller {
		return sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.every(7) && !sold {
				return loadtest.Reply{Outcome: loadtest.Unknown}
			}
			told := s.sell(g, r)
			if s.every(7) {
				return loadtest.Reply{Outcome: loadtest.Unknown}
			}
			return told
		})
	}
	blind := func() *seller {
		s := silent(true)
		s.mode.mapped, s.mode.blind, s.mode.unlisted = true, true, true
		return s
	}
	// slow lists its orders in that time, as an index told them that is 2 s behind.
	slow := func(pages time.Duration) *seller {
		clock := new(late)
		return &seller{pages: pages, orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
			if clock.over(2 * time.Second) {
				return told
			}
			return told[:len(told)/2]
		}}
	}
	before := loadtest.Order{OrderID: "old", Epoch: 0, Quantity: 5, SKU: "load-seller", Version: 1}
	for _, row := range []struct {
		name    string
		s       *seller
		plan    loadtest.Plan
		want    loadtest.Finding
		settled bool // the evidence came right at a later look, and the run says so
	}{
		{"slow", &seller{think: 20 * time.Millisecond}, loadtest.Plan{}, loadtest.Holds, false},
		{"orders come into sight 0.7 s late", func() *seller {
			clock := new(late)
			return &seller{orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				if clock.over(700 * time.Millisecond) {
					return told
				}
				return told[:len(told)/2]
			}}
		}(), loadtest.Plan{}, loadtest.Holds, true},
		{"the list is slow", &seller{pages: 14 * time.Second}, loadtest.Plan{}, loadtest.Holds, false},
		{"the list is slow, and comes from an index", slow(4 * time.Second), loadtest.Plan{}, loadtest.Holds, true},
		{"two lists take too long together", slow(20 * time.Second), loadtest.Plan{}, loadtest.Holds, true},
		{"a list takes too long", slow(40 * time.Second), loadtest.Plan{}, loadtest.Undecided, false},
		{"a slow list shifts while it is read", func() *seller {
			clock := new(late)
			s := &seller{pages: 2 * time.Second}
			s.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				slices.Reverse(told) // the newest first, of which the first ten come into sight behind the reader
				if !clock.over(2500 * time.Millisecond) {
					return append(told[10:20], told[10:]...)
				}
				return told
			}
			return s
		}(), loadtest.Plan{}, loadtest.Holds, true},
		{"the second look is slow, and comes to a replica that is behind", func() *seller {
			looks, clock := 0, new(late)
			s := &seller{pages: 4 * time.Second}
			s.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				if looks++; looks > 1 && !clock.over(2*time.Second) {
					return told[:len(told)/2]
				}
				return told
			}
			return s
		}(), loadtest.Plan{}, loadtest.Holds, true},
		{"replies are lost, and the list is slow", func() *seller {
			s, silent := slow(4*time.Second), silent(true)
			s.deduct = silent.deduct
			return s
		}(), loadtest.Plan{}, loadtest.Holds, true},
		{"stock is written 0.3 s late", func() *seller {
			clock := new(late)
			return &seller{stock: func(s *seller, _ *good, told *loadtest.Stock) {
				if s.n > 0 && !clock.over(300*time.Millisecond) {
					told.Quantity += 2
				}
			}}
		}(), loadtest.Plan{Requests: 20}, loadtest.Holds, true},
		{"reads come from a cache of 0.3 s", func() *seller {
			clock := new(late)
			return &seller{stock: func(s *seller, g *good, told *loadtest.Stock) {
				if s.n > 0 && !clock.over(300*time.Millisecond) {
					told.Quantity, told.Sold, told.Version = g.Initial, 0, 1
				}
			}}
		}(), loadtest.Plan{}, loadtest.Holds, true},
		{
			"orders are listed backwards",
			&seller{orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				slices.Reverse(told)
				return told
			}},
			loadtest.Plan{},
			loadtest.Holds, false,
		},
		{"pages overlap", &seller{orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
			return append(told, told[:min(5, len(told))]...)
		}}, loadtest.Plan{}, loadtest.Holds, false},
		{
			"orders of an earlier epoch are listed too",
			&seller{orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				return append([]loadtest.Order{before}, told...)
			}},
			loadtest.Plan{},
			loadtest.Holds, false,
		},
		{"replies are lost, and had sold", silent(true), loadtest.Plan{}, loadtest.Holds, false},
		{"replies are lost, and had not sold", silent(false), loadtest.Plan{}, loadtest.Holds, false},
		{"replies are lost, and no orders are listed", blind(), loadtest.Plan{Requests: 20}, loadtest.Undecided, false},
		{"it is busy most of the time", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n%3 > 0 {
				return loadtest.Reply{Outcome: loadtest.Busy, Status: 503}
			}
			return s.sell(g, r)
		}), loadtest.Plan{}, loadtest.Holds, false},
		{
			"it restarts, and refuses connections meanwhile",
			sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
				if s.n > 10 && s.n < 30 {
					return loadtest.Reply{Outcome: loadtest.Failed, Error: "not sent: connection refused"}
				}
				return s.sell(g, r)
			}),
			loadtest.Plan{},
			loadtest.Holds, false,
		},
		{
			"a proxy replaces request ids",
			&seller{orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				for i := range told {
					told[i].RequestID = fmt.Sprintf("proxy-%d", i)
				}
				return told
			}},
			loadtest.Plan{},
			loadtest.Holds, false,
		},
		{"instances have no names", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			told.Instance = ""
			return told
		}), loadtest.Plan{}, loadtest.Holds, false},
		{"the clocks of instances are wrong", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if told.Receipt != nil {
				told.AcquiredAt = time.Now().Add(time.Duration(s.n%3) * time.Hour)
				told.ReleasedAt = told.AcquiredAt.Add(time.Minute)
			}
			return told
		}), loadtest.Plan{}, loadtest.Holds, false},
		{
			"versions have gaps at the end", &seller{stock: func(_ *seller, _ *good, told *loadtest.Stock) {
				told.Version += 9
			}},
			loadtest.Plan{},
			loadtest.Holds, false,
		},
		{"others sell, and may", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if r.RequestID = fmt.Sprintf("other-%d", s.n); s.every(9) {
				s.sell(g, r)
			}
			return told
		}), loadtest.Plan{Shared: true}, loadtest.Holds, false},
		{
			"it sells units of several sizes", &seller{},
			loadtest.Plan{Quantities: []int64{1, 2, 5}},
			loadtest.Holds,
			false,
		},
		{
			"nothing is left from the start", &seller{},
			loadtest.Plan{Stock: 0, Requests: 5, SKUs: 2},
			loadtest.Holds, false,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := put(t, row.s, row.plan)
			spoken(t, "honest", row.name, &r.Verdict)
			if v := r.Verdict; v.Finding != row.want {
				t.Errorf("finding %s, want %s: %v", v.Finding, row.want, v.Reasons)
			}
			told := slices.ContainsFunc(r.Warnings,
				func(text words.Text) bool { return strings.Contains(text.EN, "tells late what it knows") })
			if told != row.settled || r.SettledMS > 0 != row.settled {
				t.Errorf("settled after %.0f ms, warnings %q; want that said: %v", r.SettledMS, r.Warnings, row.settled)
			}
		})
	}
}

// correct returns a correct execution, one sale after the other, each at an instant between its sending and its reply,
// which are random.
func correct(t *rapid.T) *tape {
	tape := newTape(rapid.Int64Range(3, 20).Draw(t, "stock"))
	now := noon
	for range rapid.IntRange(2, 15).Draw(t, "requests") {
		now = now.Add(time.Millisecond)
		want := rapid.Int64Range(1, 3).Draw(t, "want")
		var r *loadtest.Record
		switch {
		case rapid.IntRange(0, 9).Draw(t, "busy") == 0:
			r = tape.answer(loadtest.Busy, want)
		case tape.account.After.Quantity < want:
			r = tape.answer(loadtest.SoldOut, want)
		default:
			r = tape.next(want)
		}
		r.SentAt = now.Add(-time.Duration(rapid.IntRange(0, 5000).Draw(t, "before")) * time.Microsecond)
		r.DoneAt = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "after")) * time.Microsecond)
	}
	return tape
}

// A correct execution holds however its requests overlap, and fails when one of its numbers is changed. Changes that
// cannot be seen are left out here and listed in docs/verdict.md: the quantities of refused requests, and the final
// version.
func TestEveryEditIsNoticed(t *testing.T) {
	edits := map[string]func(*tape, int, int64){
		"quantity asked":   func(t *tape, i int, d int64) { t.records[i].Quantity += abs(d) },
		"read, reply":      func(t *tape, i int, d int64) { t.records[i].Read += d },
		"remaining, reply": func(t *tape, i int, d int64) { t.records[i].Remaining += d },
		"version, reply":   func(t *tape, i int, d int64) { t.records[i].Version += uint64(abs(d)) },
		"epoch, reply":     func(t *tape, i int, d int64) { t.records[i].Epoch += uint64(abs(d)) },
		"segment, reply":   func(t *tape, i int, d int64) { t.records[i].Segment += int(abs(d)) },
		"order id, reply":  func(t *tape, i int, _ int64) { t.records[i].OrderID += "x" },
		"outcome, reply": func(t *tape, i int, _ int64) {
			t.records[i].Reply = loadtest.Reply{Outcome: loadtest.Busy}
		},
		"quantity, order":    func(t *tape, i int, d int64) { t.order(i).Quantity += abs(d) },
		"read, order":        func(t *tape, i int, d int64) { t.order(i).Read += d },
		"remaining, order":   func(t *tape, i int, d int64) { t.order(i).Remaining += d },
		"version, order":     func(t *tape, i int, d int64) { t.order(i).Version += uint64(abs(d)) },
		"epoch, order":       func(t *tape, i int, d int64) { t.order(i).Epoch += uint64(abs(d)) },
		"order id":           func(t *tape, i int, _ int64) { t.order(i).OrderID += "x" },
		"quantity at first":  func(t *tape, _ int, d int64) { t.account.Before.Quantity += d },
		"epoch at first":     func(t *tape, _ int, d int64) { t.account.Before.Epoch += uint64(abs(d)) },
		"quantity at last":   func(t *tape, _ int, d int64) { t.account.After.Quantity += d },
		"sold at last":       func(t *tape, _ int, d int64) { t.account.After.Sold += d },
		"epoch at last":      func(t *tape, _ int, d int64) { t.account.After.Epoch += uint64(abs(d)) },
		"an order taken out": func(t *tape, i int, _ int64) { t.cut(i) },
		"a reply taken out":  func(t *tape, i int, _ int64) { t.records = slices.Delete(t.records, i, i+1) },
		"both of them read the same and wrote the same": func(t *tape, i int, d int64) {
			t.records[i].Read, t.order(i).Read = t.records[i].Read+d, t.order(i).Read+d
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		tape := correct(t)
		if v := tape.judge(loadtest.Cluster); v.AcceptedUnits > 0 &&
			(v.Finding != loadtest.Holds || v.Linear.Result != loadtest.InOrder) {
			t.Fatalf("a right execution: %s, %+v: %v", v.Finding, v.Linear, v.Reasons)
		}
		var sold []int
		for i := range tape.records {
			if tape.records[i].Outcome == loadtest.Accepted {
				sold = append(sold, i)
			}
		}
		if len(sold) == 0 {
			return
		}
		i := rapid.SampledFrom(sold).Draw(t, "edited")
		d := rapid.SampledFrom([]int64{-3, -1, 1, 2}).Draw(t, "by")
		name := rapid.SampledFrom(sortedNames(edits)).Draw(t, "edit")
		edits[name](tape, i, d)
		if v := tape.judge(loadtest.Cluster); v.Finding == loadtest.Holds {
			t.Fatalf("%s of request %d by %d: holds", name, i, d)
		}
	})
}

// order returns the order of the record at i.
func (t *tape) order(i int) *loadtest.Order {
	at := slices.IndexFunc(t.account.Orders, func(o loadtest.Order) bool { return o.OrderID == t.records[i].OrderID })
	return &t.account.Orders[at]
}

func (t *tape) cut(i int) {
	id := t.records[i].OrderID
	t.account.Orders = slices.DeleteFunc(t.account.Orders, func(o loadtest.Order) bool { return o.OrderID == id })
}

func sortedNames[V any](m map[string]V) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func abs(n int64) int64 { return max(n, -n) }

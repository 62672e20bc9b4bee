package loadtest_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

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

// indexed is a seller whose list of orders takes so long to read, and comes from an index that is behind by so long.
func indexed(pages, behind time.Duration) *seller {
	clock := new(late)
	return &seller{pages: pages, orders: func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
		if clock.over(behind) {
			return told
		}
		return told[:len(told)/2]
	}}
}

// Correct services that are hard to judge: none of them may be called broken.
func TestAwkward(t *testing.T) {
	sells := func(f sell) *seller { return &seller{deduct: f} }
	lists := func(f list) *seller { return &seller{orders: f} }
	// silent loses the reply to every seventh request, which has sold or has not.
	silent := func(sold bool) sell {
		return func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.every(7) && !sold {
				return loadtest.Reply{Outcome: loadtest.Unknown}
			}
			told := s.sell(g, r)
			if s.every(7) {
				return loadtest.Reply{Outcome: loadtest.Unknown}
			}
			return told
		}
	}
	blind := mapped(sells(silent(true)))
	blind.mode.blind, blind.mode.unlisted = true, true
	slowAndSilent := indexed(4*time.Second, 2*time.Second)
	slowAndSilent.deduct = silent(true)
	// stocked reports the stock late, by that time.
	stocked := func(by time.Duration, change func(g *good, told *loadtest.Stock)) *seller {
		clock := new(late)
		return &seller{stock: func(s *seller, g *good, told *loadtest.Stock) {
			if s.n > 0 && !clock.over(by) {
				change(g, told)
			}
		}}
	}
	shifting, shifts := &seller{pages: 2 * time.Second}, new(late)
	shifting.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
		slices.Reverse(told) // the newest first, of which the first ten come into sight behind the reader
		if !shifts.over(2500 * time.Millisecond) {
			return append(told[10:20], told[10:]...)
		}
		return told
	}
	replica, lags := &seller{pages: 4 * time.Second}, new(late)
	replica.orders = func(s *seller, _ *good, told []loadtest.Order) []loadtest.Order {
		if s.looks > 1 && !lags.over(2*time.Second) {
			return told[:len(told)/2]
		}
		return told
	}
	sharing := atSecondLook(func(_ *seller, g *good) { g.cancel(len(g.list) - 1) })
	sharing.deduct = func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		if r.RequestID = "nobody"; s.n == 4 {
			s.sell(g, r)
		}
		return told
	}
	unanswered := atSecondLook(func(_ *seller, g *good) { g.cancel(len(g.list) - 1) })
	unanswered.deduct = func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		if s.n == 4 {
			return loadtest.Reply{Outcome: loadtest.Unknown}
		}
		return told
	}
	split := func() *seller { return sells(splits(0, 0)) }
	splitBlind := mapped(split())
	splitBlind.mode.blind = true
	hidden := func(_ int, o *loadtest.Order) { o.Read, o.Remaining, o.Version, o.Blind = 0, 0, 0, true }
	none := loadtest.Plan{}
	nine := loadtest.Plan{Stock: 9, Requests: 4, Concurrency: 1}
	three := loadtest.Plan{Quantity: 3, Stock: 90, Requests: 40}
	for _, row := range []struct {
		name    string
		s       *seller
		plan    loadtest.Plan
		want    loadtest.Finding
		settled bool // the evidence came right at a later look, and the run says so
	}{
		{"slow", &seller{think: 20 * time.Millisecond}, none, holds, false},
		{"orders come into sight 0.7 s late", indexed(0, 700*time.Millisecond), none, holds, true},
		{"the list is slow", &seller{pages: 14 * time.Second}, none, holds, false},
		{"two lists take too long together", indexed(20*time.Second, 2*time.Second), none, holds, true},
		{"a list takes too long", indexed(40*time.Second, 2*time.Second), none, undecided, false},
		{"a slow list shifts while it is read", shifting, none, holds, true},
		{"the second look is slow, and comes to a replica that is behind", replica, none, holds, true},
		{"replies are lost, and the list is slow", slowAndSilent, none, holds, true},
		{"stock is written 0.3 s late", stocked(300*time.Millisecond, func(_ *good, told *loadtest.Stock) {
			told.Quantity += 2
		}), loadtest.Plan{Requests: 20}, holds, true},
		{"reads come from a cache of 0.3 s", stocked(300*time.Millisecond, func(g *good, told *loadtest.Stock) {
			told.Quantity, told.Sold, told.Version = g.Initial, 0, 1
		}), none, holds, true},
		{"orders are listed backwards", lists(func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
			slices.Reverse(told)
			return told
		}), none, holds, false},
		{"pages overlap", lists(func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
			return append(told, told[:min(5, len(told))]...)
		}), none, holds, false},
		{"orders of an earlier epoch are listed too", lists(
			func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
				return append([]loadtest.Order{{OrderID: "old", Quantity: 5, SKU: "load-seller", Version: 1}}, told...)
			}), none, holds, false},
		{"replies are lost, and had sold", sells(silent(true)), none, holds, false},
		{"replies are lost, and had not sold", sells(silent(false)), none, holds, false},
		{"replies are lost, and no orders are listed", blind, loadtest.Plan{Requests: 20}, undecided, false},
		{"it restarts, and refuses connections", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n > 10 && s.n < 30 {
				return loadtest.Reply{Outcome: loadtest.Failed, Error: "not sent: connection refused"}
			}
			return s.sell(g, r)
		}), none, holds, false},
		{"a proxy replaces request ids", retold(&seller{}, func(i int, o *loadtest.Order) {
			o.RequestID = fmt.Sprintf("proxy-%d", i)
		}), none, holds, false},
		{"instances have no names", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			told.Instance = ""
			return told
		}), none, holds, false},
		{"the clocks of instances are wrong", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if told.Receipt != nil {
				told.AcquiredAt = time.Now().Add(time.Duration(s.n%3) * time.Hour)
				told.ReleasedAt = told.AcquiredAt.Add(time.Minute)
			}
			return told
		}), none, holds, false},
		{"versions have gaps at the end", &seller{stock: func(_ *seller, _ *good, told *loadtest.Stock) {
			told.Version += 9
		}}, none, holds, false},
		{"others sell, and may", sells(func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			told := s.sell(g, r)
			if r.RequestID = fmt.Sprintf("other-%d", s.n); s.every(9) {
				s.sell(g, r)
			}
			return told
		}), loadtest.Plan{Shared: true}, holds, false},
		{"it sells units of several sizes", &seller{}, loadtest.Plan{Quantities: []int64{1, 2, 5}}, holds, false},
		{"it sells several SKUs", &seller{}, loadtest.Plan{SKUs: 5, Skew: "hot:0.6"}, holds, false},
		{"others take back what they bought, and may", sharing, loadtest.Plan{
			Stock: 9, Requests: 4, Concurrency: 1, Shared: true,
		}, holds, false},
		{"it cancels an order of which the customer had no answer", unanswered, nine, holds, false},
		{"one order for each unit", split(), three, holds, false},
		{"one order for each unit, mapped", mapped(split()), three, holds, false},
		{"orders do not tell what they read", retold(mapped(split()), hidden), three, holds, false},
		{"nor do the replies", splitBlind, three, holds, false},
		{"one order for each unit, while others buy", mapped(sells(splits(0, 1))), loadtest.Plan{
			Quantity: 3, Stock: 300, Requests: 40, Shared: true,
		}, holds, false},
		{"one order for each unit, and a proxy replaces request ids", retold(split(), func(_ int, o *loadtest.Order) {
			o.RequestID = "proxy-" + o.RequestID
		}), three, holds, false},
		{"it redirects, which says nothing of a sale", sells(
			func(*seller, *good, loadtest.Request) loadtest.Reply {
				return loadtest.Reply{Outcome: loadtest.Failed, Status: 307, Location: "https://shop.example/buy"}
			}), none, undecided, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			r := put(t, row.s, row.plan)
			if v := r.Verdict; v.Finding != row.want || v.Undone > 0 || (len(v.Reasons) == 0) != (row.want == holds) {
				t.Errorf("finding %s, want %s: %v", v.Finding, row.want, v.Reasons)
			}
			if r.SettledMS > 0 != row.settled || r.SettledMS > 0 && len(r.Warnings) == 0 {
				t.Errorf("settled after %.0f ms, warnings %q; want that said: %v", r.SettledMS, r.Warnings, row.settled)
			}
		})
	}
}

// A second look through a replica that stays behind proves nothing.
func TestAReplicaThatIsBehind(t *testing.T) {
	s := &seller{}
	s.orders = func(s *seller, _ *good, told []loadtest.Order) []loadtest.Order {
		if s.looks == 2 {
			return told[:1]
		}
		return told
	}
	v := put(t, s, loadtest.Plan{Stock: 4, Requests: 4, Concurrency: 1}).Verdict
	if v.Finding != holds || v.LookedAt.IsZero() || v.LookedMS <= 0 {
		t.Errorf("%s, looked until %v: %v", v.Finding, v.LookedAt, v.Reasons)
	}
}

// An accepted request whose reply has no order number does not make another order without one its own.
func TestUndoneWithoutANumber(t *testing.T) {
	nameless := atSecondLook(func(_ *seller, g *good) { g.cancel(len(g.list) - 1) })
	nameless.deduct = func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
		told := s.sell(g, r)
		told.OrderID = ""
		if s.n == 4 {
			s.sell(g, loadtest.Request{SKU: r.SKU, Quantity: r.Quantity, RequestID: "nobody"})
			g.last().OrderID = ""
		}
		return told
	}
	v := sold(t, nameless, loadtest.Plan{Stock: 9, Requests: 4, Concurrency: 1}).Verdict
	if v.Finding != undecided || v.Undone != 0 {
		t.Errorf("finding %s, undone %d: %v", v.Finding, v.Undone, v.Reasons)
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
	abs := func(n int64) int64 { return max(n, -n) }
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
	var names []string
	for name := range edits {
		names = append(names, name)
	}
	slices.Sort(names)
	rapid.Check(t, func(t *rapid.T) {
		tape := correct(t)
		if v := tape.judge(loadtest.Cluster); v.AcceptedUnits > 0 &&
			(v.Finding != holds || v.Linear.Result != loadtest.InOrder) {
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
		name := rapid.SampledFrom(names).Draw(t, "edit")
		edits[name](tape, i, d)
		if v := tape.judge(loadtest.Cluster); v.Finding == holds {
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

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/internal/words"
)

// A counter is a target that has a stock and orders, and nothing else. They may differ from one second on.
type counter struct {
	Target
	stock, later Stock
	orders, then []Order
	from         time.Time // zero: they stay
	assumed      int64
	asked        []string // whether it was asked to settle
	refuses      func(orderID string) error
}

func (c *counter) URL() string { return "http://shop" }

func (c *counter) changed() bool { return !c.from.IsZero() && !time.Now().Before(c.from) }

func (c *counter) Stock(context.Context, string, string) (Stock, error) {
	if c.changed() {
		return c.later, nil
	}
	return c.stock, nil
}

func (c *counter) Orders(context.Context, string, string) ([]Order, error) {
	if c.changed() {
		return c.then, nil
	}
	return c.orders, nil
}

func (c *counter) Settle(_ context.Context, _, _, orderID string) error {
	c.asked = append(c.asked, orderID)
	return c.refuses(orderID)
}

// A guess is a counter that does not report the initial stock.
type guess struct{ *counter }

func (g guess) Assume(context.Context, Look) (int64, error) { return g.assumed, nil }

// sold returns a counter of ten units, of which n orders took one each.
func sold(n int) *counter {
	c := &counter{stock: Stock{
		SKU: "pen", Store: "redis", Quantity: int64(10 - n), Initial: 10, Sold: int64(n), Version: uint64(n), Epoch: 2,
	}}
	for i := range n {
		c.orders = append(c.orders, Order{
			OrderID: fmt.Sprint("o", i), RequestID: fmt.Sprint("r", i), SKU: "pen", Quantity: 1, Read: int64(10 - i),
			Remaining: int64(9 - i), Version: uint64(i), Epoch: 2, Strategy: []string{"b", "a", ""}[i%3],
			Instance: "app",
		})
	}
	return c
}

// texts are reasons or notes, by their keys.
func texts(v *Verdict, i *Inspection) string {
	var list []string
	for key, pairs := range map[string][]any{
		"because.initial-unknown": {"n", int64(10)}, "because.nothing-sold": nil,
		"because.other-initial": {"stored", int64(10), "given", int64(11)},
		"note.quantity-unknown": nil, "note.accepted-unknown": nil, "note.accepted-at-most": {"n", int64(3)},
		"warning.never-ran-out":  {"left", int64(6), "initial", int64(10)},
		"note.accepted-at-least": {"n", int64(3)},
		"note.more-orders":       {"n", int64(1)}, "because.foreign-counted": {"n", int64(1)},
		"because.phantoms-counted": {"accepted", int64(5), "orders", 4},
		"note.other-quantity": {
			"n", 1, "asked", int64(1), "first", phrases.Say("found.took", "order", "o2", "took", int64(2)),
		},
		"because.misserved-each": {
			"n", 1, "asked", int64(1), "first", phrases.Say("found.took", "order", "o2", "took", int64(2)),
		},
	} {
		want := phrases.Say(key, pairs...)
		about := func(r Reason) bool { return r.Text == want }
		if slices.Contains(i.Notes, want) || slices.ContainsFunc(append(v.Reasons, i.Reasons...), about) {
			list = append(list, key)
		}
	}
	slices.Sort(list)
	if n := len(i.Notes) + len(v.Reasons) + len(i.Reasons); n != len(list) {
		list = append(list, fmt.Sprint(n, " texts: ", i.Notes, v.Reasons, i.Reasons))
	}
	return strings.Join(list, " ")
}

// A tool's count and the orders agree, or differ by what the tool may have cut off at its end or others bought.
func TestWhatAToolCounted(t *testing.T) {
	accepted := func(n int64) Look { return Look{Quantity: 1, Accepted: &n} }
	atMost := func(n int64) Look { return Look{Quantity: 1, AtMost: &n} }
	atLeast := func(n int64) Look { return Look{Quantity: 1, AtLeast: &n} }
	shared := func(l Look) Look { l.Shared = true; return l }
	cutOff := func(l Look) Look { l.CutOff = 1; return l }
	for _, row := range []struct {
		name string
		look Look
		two  bool // the third order is of two units
		want string
	}{
		{"as many", accepted(4), false, ""},
		{"one order more", accepted(3), false, "because.foreign-counted"},
		{"one order more, and it was cut off", cutOff(accepted(3)), false, "note.more-orders"},
		{"one order more, and others buy", shared(accepted(3)), false, "note.more-orders"},
		{"one order fewer", accepted(5), false, "because.phantoms-counted"},
		{"one order fewer, and others buy", shared(accepted(5)), false, "because.phantoms-counted"},
		{"fewer than refused", atMost(3), false, "because.foreign-counted"},
		{"fewer than refused, and it was cut off", cutOff(atMost(3)), false, "note.accepted-at-most"},
		{"fewer than refused, and others buy", shared(atMost(3)), false, "note.accepted-at-most"},
		{"fewer than were counted at last", atLeast(3), false, "note.accepted-at-least"},
		{"more than were counted at last", atLeast(5), false, "because.phantoms-counted"},
		{"not counted", Look{Quantity: 1}, false, "note.accepted-unknown"},
		{"of what quantity", Look{}, true, "note.accepted-unknown note.quantity-unknown"},
		{"another quantity", accepted(4), true, "because.misserved-each"},
		{"another quantity, and others buy", shared(accepted(4)), true, "note.other-quantity"},
	} {
		orders := sold(4).orders
		if row.two {
			orders[2].Quantity = 2
		}
		i, v := &Inspection{Accepted: row.look.Accepted, Orders: len(orders)}, &Verdict{}
		i.compare(v, row.look, orders)
		if got := texts(v, i); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// What a store alone shows is judged with what is known of the start.
func TestWhatTheStoreAloneShows(t *testing.T) {
	four, ten, eleven := int64(4), int64(10), int64(11)
	mapped := sold(4)
	mapped.stock.Mapped = true
	mapped.assumed = 10
	for _, row := range []struct {
		name   string
		target Target
		look   Look
		want   Finding
		says   string
		orders int
	}{
		{"all is known", sold(4), Look{Quantity: 1, Accepted: &four}, Holds, "warning.never-ran-out", 4},
		{"it ran out", sold(10), Look{Quantity: 1, Accepted: &ten}, Holds, "", 10},
		{
			"nothing was sold", sold(0), Look{Quantity: 1, Accepted: new(int64)}, Undecided, "because.nothing-sold", 0,
		},
		{
			"another start", sold(4),
			Look{Quantity: 1, Accepted: &four, Initial: &eleven},
			Undecided,
			"because.other-initial", 4,
		},
		{
			"a start that is guessed",
			guess{mapped},
			Look{Quantity: 1, Accepted: &four},
			Undecided,
			"because.initial-unknown", 4,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			i, err := Inspect(t.Context(), row.target, row.look)
			if err != nil {
				t.Fatalf("%s: %v", row.name, err)
			}
			i.Notes = slices.DeleteFunc(i.Notes, func(n words.Text) bool {
				return n == say("limit.no-versions") // of every mapped target
			})
			if got := texts(&Verdict{}, i); got != row.says || i.Finding != row.want || i.Orders != row.orders {
				t.Errorf("%s: %s, want %s; %s, want %q; %d orders",
					row.name, i.Finding, row.want, got, row.says, i.Orders)
			}
			if took := time.Since(began); took != quiet+quiet+Recheck {
				t.Errorf("%s: two looks took %v", row.name, took)
			}
			if row.orders > 0 && (!slices.Equal(i.Ways, []string{"a", "b"}) ||
				!slices.Equal(i.Instances, []string{"app"})) {
				t.Errorf("%s: ways %v, instances %v", row.name, i.Ways, i.Instances)
			}
		})
	}
}

// Without orders, the count of a tool is the evidence. What the tool did not count may have sold.
func TestInspectWithoutOrders(t *testing.T) {
	n := func(n int64) *int64 { return &n }
	for _, row := range []struct {
		name string
		look Look
		want Finding
		says string
	}{
		{"all were counted", Look{Accepted: n(92)}, Holds, ""},
		{"too many", Look{Accepted: n(93)}, Broken, "1 unit lost"},
		{"too few", Look{Accepted: n(91)}, Broken, "1 unit vanished"},
		{"cut off at the end", Look{Accepted: n(91), CutOff: 2}, Undecided, "unknown for 1 unit"},
		{"more than was cut off", Look{Accepted: n(90), CutOff: 1}, Broken, "1 unit vanished"},
		{"cut off, and they sold nothing", Look{Accepted: n(92), CutOff: 2}, Holds, ""},
		{"of two units", Look{Accepted: n(45), CutOff: 1, Quantity: 2}, Undecided, "for 2 units"},
		{"at least", Look{AtLeast: n(40)}, Undecided, "stopped counting replies at a limit"},
		{"as many at least", Look{AtLeast: n(92)}, Undecided, "at least 92 were accepted"},
		{"too many at least", Look{AtLeast: n(93)}, Broken, "1 unit lost"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := &counter{stock: Stock{SKU: "x", Quantity: 8, Initial: 100, Mapped: true, Unlisted: true}}
			row.look.SKU, row.look.Initial, row.look.Recheck = "x", n(100), new(time.Duration)
			i, err := Inspect(t.Context(), c, row.look)
			if err != nil || i.Finding != row.want || !strings.Contains(fmt.Sprint(i.Reasons), row.says) {
				t.Errorf("%s: %+v, %v; want %s: %s", row.name, i, err, row.want, row.says)
			}
		})
	}
}

// Between two looks a service may take back a sale. A fault that is proved needs no second look.
func TestTheSecondLook(t *testing.T) {
	none, hour := time.Duration(0), time.Hour
	for _, row := range []struct {
		name    string
		recheck *time.Duration
		lost    bool // a unit is lost from the start
		shared  bool
		want    Finding
		orders  int
		took    time.Duration
	}{
		{"none", &none, false, false, Holds, 4, quiet},
		{"too early", nil, false, false, Holds, 4, 2*quiet + Recheck},
		{"in time", &hour, false, false, Undecided, 3, 2*quiet + time.Hour},
		{"in time, and others cancel theirs", &hour, false, true, Holds, 3, 2*quiet + time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c, three := sold(4), sold(3)
			c.later, c.then, c.from = three.stock, three.orders, began.Add(time.Minute)
			i, err := Inspect(t.Context(), c, Look{Quantity: 1, Shared: row.shared, Recheck: row.recheck})
			if err != nil || i.Finding != row.want || i.Orders != row.orders || time.Since(began) != row.took {
				t.Errorf("%s: %s with %d orders after %v, want %s with %d after %v: %v %v",
					row.name, i.Finding, i.Orders,
					time.Since(began), row.want, row.orders, row.took, i.Reasons, err)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		c := sold(4)
		c.orders[1].Version, c.orders[1].Read, c.orders[1].Remaining = 0, 10, 9
		began := time.Now()
		i, err := Inspect(t.Context(), c, Look{Quantity: 1})
		if took := time.Since(began); err != nil || i.Finding != Broken || i.Collisions != 1 || took >= 2*quiet {
			t.Errorf("a proved fault: %s after %v, %v", i.Finding, took, err)
		}
	})
	// An inspection that ends before the store had its time to agree accuses nobody.
	synctest.Test(t, func(t *testing.T) {
		c := sold(4)
		c.stock.Quantity++
		short, end := context.WithTimeout(t.Context(), quiet+time.Millisecond) // after the first reading
		defer end()
		i, err := Inspect(short, c, Look{Quantity: 1})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended early: %+v, %v", i, err)
		}
	})
	for _, recheck := range []time.Duration{-1, maxRecheck + 1} {
		var wrong *PlanError
		_, err := Inspect(t.Context(), sold(1), Look{Recheck: &recheck})
		if !errors.As(err, &wrong) || wrong.Field != "recheck" {
			t.Errorf("a second look after %v: %v", recheck, err)
		}
	}
	most := maxRecheck
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := Inspect(over, sold(1), Look{Recheck: &most}); err != nil {
		t.Errorf("the longest time: %v", err)
	}
}

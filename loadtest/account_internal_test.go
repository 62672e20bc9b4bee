package loadtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// If a server comes back soon after the load, its orders are read. A server that stays away, or another refusal, does
// not delay the verdict.
func TestAccountWaitsForAServerThatComesBack(t *testing.T) {
	for _, row := range []struct {
		problem    string
		away, took time.Duration
		complete   bool
	}{
		{"backend_down", 2 * time.Second, 2 * time.Second, true},
		{"backend_down", time.Hour, comeback, false},
		{"forbidden", 2 * time.Second, 0, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			r := &restless{stocks: []Stock{{Version: 7}}, problem: row.problem, until: began.Add(row.away)}
			a := account(t.Context(), r, Stock{}, "redis", false, began.Add(comeback))
			if took := time.Since(began); a.Complete != row.complete || took < row.took || took > row.took+time.Second {
				t.Errorf("%+v: complete %t after %v: %s", row, a.Complete, took, a.Gap)
			}
		})
	}
}

// A second look replaces the first if it proves anything. It then has the orders that are gone, or of another sale.
func TestWhatASecondLookProves(t *testing.T) {
	first := func() Account {
		return Account{
			Before: Stock{Epoch: 2}, After: &Stock{Epoch: 2}, Complete: true,
			Orders: []Order{
				{OrderID: "a", RequestID: "1", Quantity: 1, Epoch: 2},
				{OrderID: "b", RequestID: "2", Quantity: 1, Epoch: 2},
				{OrderID: "old", RequestID: "0", Quantity: 1, Epoch: 1},
			},
		}
	}
	for _, row := range []struct {
		name     string
		change   func(a, second *Account)
		replaced bool
		undone   string
	}{
		{"the same", func(*Account, *Account) {}, true, ""},
		{"no stock", func(_, b *Account) { b.After = nil }, false, ""},
		{"set again", func(_, b *Account) { b.After.Epoch = 3 }, false, ""},
		{"incomplete", func(_, b *Account) { b.Complete = false }, false, ""},
		{"never listed", func(a, b *Account) {
			a.Before.Unlisted, a.Complete, b.Complete, a.Orders, b.Orders = true, false, false, nil, nil
		}, true, ""},
		{"an order gone", func(_, b *Account) { b.Orders = b.Orders[1:] }, true, "a"},
		{"an order of another epoch gone", func(_, b *Account) { b.Orders = b.Orders[:2] }, true, ""},
		{"another quantity", func(_, b *Account) { b.Orders[1].Quantity = 2 }, true, "b"},
		{"another request", func(_, b *Account) { b.Orders[1].RequestID = "3" }, true, "b"},
	} {
		a, second := first(), first()
		second.Store = "second"
		row.change(&a, &second)
		got := a.again(second)
		undone := ""
		for _, o := range got.Undone {
			undone += o.OrderID
		}
		if replaced := got.Store == "second"; replaced != row.replaced || undone != row.undone {
			t.Errorf("%s: replaced %t, undone %q; want %t, %q", row.name, replaced, undone, row.replaced, row.undone)
		}
	}
}

// A restless inventory reports another stock with each reading, until the last, which stays.
type restless struct {
	Inventory
	stocks []Stock
	read   int
	listed int
	fails  int // from that reading of the stock on; 0: never

	problem string // with which it refuses to list its orders
	until   time.Time
}

func (r *restless) Stock(context.Context, string, string) (Stock, error) {
	r.read++
	if r.fails > 0 && r.read >= r.fails {
		return Stock{}, errors.New("it is gone")
	}
	return r.stocks[min(r.read, len(r.stocks))-1], nil
}

func (r *restless) Orders(context.Context, string, string) ([]Order, error) {
	r.listed++
	if time.Now().Before(r.until) {
		return nil, fmt.Errorf("refuses: %w", &Problem{Type: "/problems/" + r.problem})
	}
	return []Order{{}}, nil
}

// Orders belong to a stock only if the stock was the same before and after they were read: quantity, version and epoch.
func TestOrdersAreReadWhileTheStockRests(t *testing.T) {
	still := Stock{Quantity: 5, Version: 7, Epoch: 2}
	for _, row := range []struct {
		name         string
		stocks       []Stock
		unsure       bool
		fails        int
		listed, read int
		took         time.Duration
		gap          string
	}{
		{"at rest", []Stock{still}, false, 0, 1, 2, 0, ""},
		{"another quantity", []Stock{{Quantity: 6, Version: 7, Epoch: 2}, still}, false, 0, 2, 3, 0, ""},
		{"another version", []Stock{{Quantity: 5, Version: 6, Epoch: 2}, still}, false, 0, 2, 3, 0, ""},
		{"another epoch", []Stock{{Quantity: 5, Version: 7, Epoch: 1}, still}, false, 0, 2, 3, 0, ""},
		{"unsure, at rest", []Stock{still}, true, 0, 1, 3, quiet, ""},
		{"unsure, and it moves", []Stock{{Version: 5}, {Version: 6}, {Version: 7}}, true, 0, 1, 5, 3 * quiet, ""},
		{"it never rests", []Stock{
			{Version: 1}, {Version: 2}, {Version: 3}, {Version: 4}, {Version: 5}, {Version: 6}, {Version: 7},
		}, true, 0, 2, 8, 5 * quiet, ""},
		{"no stock", nil, false, 1, 0, 1, 0, "it is gone"},
		{"no stock while it is waited for", []Stock{still}, true, 2, 0, 2, quiet, "it is gone"},
		{"no stock after the orders", []Stock{still}, false, 2, 1, 2, 0, "it is gone"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, began := &restless{stocks: row.stocks, fails: row.fails}, time.Now()
			a, err := lookOnce(t.Context(), r, Stock{SKU: "pen"}, "redis", row.unsure)
			if r.listed != row.listed || r.read != row.read || time.Since(began) != row.took {
				t.Errorf("%s: the stock was read %d times, the orders %d times, in %v; want %d, %d, %v",
					row.name, r.read,
					r.listed, time.Since(began), row.read, row.listed, row.took)
			}
			if a.Gap.EN != row.gap || (err != nil) != (row.gap != "") || a.Complete != (row.gap == "") {
				t.Errorf("%s: complete %t, gap %q, %v", row.name, a.Complete, a.Gap.EN, err)
			}
		})
	}
}

// An account without listed orders is incomplete, and says why. That is no error.
func TestAnAccountWithoutOrders(t *testing.T) {
	r := &restless{stocks: []Stock{{Quantity: 5}}}
	a, err := lookOnce(t.Context(), r, Stock{SKU: "pen", Unlisted: true}, "", false)
	if err != nil || a.Complete || a.Gap.EN != say("gap.unlisted").EN {
		t.Errorf("complete %t, gap %q, %v", a.Complete, a.Gap.EN, err)
	}
}

// Only SKUs with an unknown outcome must come to rest before they are read.
func TestWhoseStockMustRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records := []Record{
			{SKU: "a", Reply: Reply{Outcome: Unknown}},
			{SKU: "a", Reply: Reply{Outcome: Accepted}},
			{SKU: "b", Reply: Reply{Outcome: Busy}},
		}
		for sku, want := range map[string]time.Duration{"a": quiet, "b": 0} {
			began := time.Now()
			list := accounts(t.Context(), &restless{stocks: []Stock{{}}}, []Stock{{SKU: sku}}, "redis", records)
			if took := time.Since(began); took != want || len(list) != 1 || !list[0].Complete {
				t.Errorf("%s: %v after %v, want %v", sku, list, took, want)
			}
		}
	})
}

// An order is settled if the service named it when it did not know its outcome. Again and again, while its server is
// down or the order is undecided, and no longer than comeback.
func TestWhichOrdersAreSettled(t *testing.T) {
	problem := func(name string) error { return fmt.Errorf("refuses: %w", &Problem{Type: "/problems/" + name}) }
	for _, row := range []struct {
		name   string
		reply  Reply
		answer error
		asked  int
	}{
		{"unknown", Reply{Outcome: Unknown, Problem: "outcome_unknown", OrderID: "o"}, nil, 1},
		{"a crash", Reply{Outcome: Unknown, Problem: "internal", OrderID: "o"}, nil, 0},
		{"not named", Reply{Outcome: Unknown, Problem: "outcome_unknown"}, nil, 0},
		{"accepted", Reply{Outcome: Accepted, Problem: "outcome_unknown", OrderID: "o"}, nil, 0},
		{"refused", Reply{Outcome: Unknown, Problem: "outcome_unknown", OrderID: "o"}, problem("too_old"), 1},
		{"down", Reply{Outcome: Unknown, Problem: "outcome_unknown", OrderID: "o"}, problem("backend_down"), 21},
		{"undecided", Reply{Outcome: Unknown, Problem: "outcome_unknown", OrderID: "o"}, problem("undecided"), 21},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := &counter{refuses: func(string) error {
				if time.Since(began) > 2*comeback {
					return nil // a loop that has no end fails, and does not hang
				}
				return row.answer
			}}
			settleUnknown(t.Context(), c, "redis", []Record{{SKU: "pen", Reply: row.reply}})
			if n := len(c.asked); n != row.asked && (row.asked < 2 || n != row.asked+1) {
				t.Errorf("%s: asked %d times, want %d", row.name, n, row.asked)
			}
		})
	}
}

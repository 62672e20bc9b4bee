package mapping_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// buy puts load on a shop that has 10 units.
func buy(t *testing.T, shop http.Handler, text, sku string, requests int) *loadtest.Result {
	t.Helper()
	target, file := reach(t, shop, text, 4)
	r, err := loadtest.Run(t.Context(), target, loadtest.Plan{
		Strategy: file.Name(), SKU: sku, Stock: 10, Requests: requests, Concurrency: 4,
		Recheck: new(time.Duration), Late: file.Late(), Timeout: 20 * time.Second,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func outcomes(r *loadtest.Result) map[loadtest.Outcome]int {
	n := make(map[loadtest.Outcome]int)
	for i := range r.Records {
		n[r.Records[i].Outcome]++
	}
	return n
}

// A sale in steps is one sale, whether the step that sells decides or the one after it, and is told as its steps.
func TestSteps(t *testing.T) {
	t.Parallel()
	for _, later := range []bool{false, true} {
		for _, holds := range []bool{false, true} {
			s := &stepShop{later: later, holds: holds}
			r := buy(t, s, s.mapping(), "shirt", 15)
			n := outcomes(r)
			if r.Verdict.Finding != loadtest.Holds || n[loadtest.Accepted] != 10 || n[loadtest.SoldOut] != 5 {
				t.Errorf("later %v, holds %v: %s %v %v", later, holds, r.Verdict.Finding, n, r.Verdict.Reasons)
			}
			for i := range r.Records {
				p := r.Records[i].Purchase
				want := 3
				if later {
					want = 4
				}
				if r.Records[i].Outcome == loadtest.Accepted &&
					(p.Sells != 3 || p.Decided != want || len(p.Steps) != 4) {
					t.Errorf("%+v", p)
				}
			}
		}
	}
}

// What ends a purchase before the step that sells is told with that step's name.
func TestStepsThatFail(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		step, trouble string
		outcome       loadtest.Outcome
		decided       int
		says          string
	}{
		{"POST carts", "cut", loadtest.Failed, 1, "step cart: no whole reply"},
		{"POST carts lines", "serve and cut", loadtest.Failed, 2, "step line: no whole reply"},
		{"POST carts lines", "fail", loadtest.Failed, 2, "step line: status 500"},
		{"POST carts checkout", "cut", loadtest.Unknown, 3, "step checkout: no whole reply"},
		{"POST carts checkout", "fail", loadtest.Unknown, 3, "step checkout: status 500"},
		{"POST carts checkout", "busy", loadtest.Busy, 3, ""},
		{"GET order", "cut", loadtest.Unknown, 4, "step wait: no whole reply"},
		{"GET order", "fail", loadtest.Unknown, 4, "step wait: status 500"},
	} {
		for _, later := range []bool{true, false} {
			s := &stepShop{later: later}
			s.trouble = func(step string, n int) string {
				if step != row.step || n > 1 {
					return ""
				}
				return row.trouble
			}
			target, _ := reach(t, s, s.mapping(), 0)
			s.onHand = 9
			got := target.Deduct(t.Context(), loadtest.Request{SKU: "shirt", Quantity: 1, RequestID: "r"})
			if !later && row.decided > 3 { // it was sold before
				row.outcome, row.decided, row.says = loadtest.Accepted, 3, "sold, and then: "+row.says
			}
			if got.Outcome != row.outcome || got.Purchase.Decided != row.decided ||
				!strings.Contains(got.Error, row.says) {
				t.Errorf("%s %s, later %v: %+v %+v", row.trouble, row.step, later, got, got.Purchase)
			}
		}
	}
	target := canned(t, strings.Replace(stepMapping, "/carts, save", "'/carts/{{held}}', save", 1), nil)
	got := target.Deduct(t.Context(), loadtest.Request{SKU: "shirt", Quantity: 1, RequestID: "r"})
	if want := `{{held}} is saved when the stock is set`; got.Outcome != loadtest.Failed ||
		!strings.Contains(got.Error, want) {
		t.Errorf("%+v; want %s", got, want)
	}
}

// An own reply of a cheat, to one request of a step.
type cheat struct {
	name, step string
	later      string // "": both that decide at once and that do later
	own        func(s *stepShop, c *stepCart, w http.ResponseWriter)
	want       loadtest.Finding
	says       string
}

// Shops that sell in steps, or decide later, with one cheat each.
func TestStepsOfCheats(t *testing.T) {
	t.Parallel()
	const broken, undecided = loadtest.Broken, loadtest.Undecided
	const line, checkout, order = "POST carts lines", "POST carts checkout", "GET order"
	book := func(s *stepShop, c *stepCart) { c.state, s.orders = "confirmed", append(s.orders, c) }
	for _, row := range []cheat{
		{"sells more than there is", "", "", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			if c.units == 0 { // a line
				c.units = 1
				return
			}
			s.sell(c)
			c.state = "confirmed"
			s.told(c, w)
		}, broken, "oversold by 5 units: 15 sold of 10; answered last: c"},
		{"sells what no order has", checkout, "", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			c.state = "confirmed"
			s.told(c, w)
		}, broken, "phantoms: "},
		{"books, and takes nothing off", checkout, "", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			book(s, c)
			s.told(c, w)
		}, broken, "lost: "},
		{"takes two for one", checkout, "", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			s.sell(c)
			s.onHand--
			s.told(c, w)
		}, broken, "vanished: "},
		{"refuses, and sells", checkout, "no", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			s.sell(c)
			soldOut(w)
		}, broken, "denied: "},
		{"fails, and sells", checkout, "no", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			s.sell(c)
			w.WriteHeader(http.StatusUnprocessableEntity)
		}, broken, "denied: "},
		{"rejects what it has sold", order, "yes", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			fmt.Fprint(w, `{"state":"rejected"}`)
		}, broken, "denied: "},
		{"confirms what it has rejected", checkout, "yes", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			c.state = "confirmed"
			s.told(c, w)
		}, broken, "phantoms: "},
		{"sells a cart twice", checkout, "", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			twin := *c
			twin.id += "-twin"
			s.sell(c)
			s.sell(&twin)
			s.told(c, w)
		}, broken, "beyond the first of one request"},
		{"sells two for one", checkout, "", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			c.units = 2
			s.sell(c)
			s.told(c, w)
		}, broken, "misserved: "},
		{"is sold out while there is stock", line, "", func(_ *stepShop, _ *stepCart, w http.ResponseWriter) {
			soldOut(w)
		}, broken, "answered sold out although there was enough"},
		{"sells to a cart that it fails", line, "", func(s *stepShop, c *stepCart, w http.ResponseWriter) {
			c.units = 1
			s.sell(c)
			w.WriteHeader(http.StatusUnprocessableEntity)
		}, undecided, "ended before the step that sells, and the store has an order all the same"},
		{"takes a unit for a cart that it fails", line, "", func(s *stepShop, _ *stepCart, w http.ResponseWriter) {
			s.onHand--
			w.WriteHeader(http.StatusInternalServerError)
		}, undecided, "may hold them in their carts"},
	} {
		for _, later := range []bool{false, true} {
			if row.later != "" && later != (row.later == "yes") {
				continue
			}
			s := &stepShop{later: later, own: row.own}
			s.cheat = func(_ *stepShop, step string, n int) bool {
				return step == row.step && n == 3 || row.step == "" && (step == line || step == checkout)
			}
			text := strings.Replace(s.mapping(), "name: cart,", "name: cart, order_id: 'header:Cart-Token',", 1)
			requests := 15
			if row.step == line { // nobody else is refused
				requests = 8
			}
			v := buy(t, s, text, "shirt", requests).Verdict
			if text := fmt.Sprint(v.Reasons); v.Finding != row.want || !strings.Contains(text, row.says) {
				t.Errorf("%s, later %v: %s; want %s: %s", row.name, later, v.Finding, row.want, text)
			}
		}
	}
}

// Shops that sell in steps and are right, whatever happens to single requests, and however they list their orders. None
// is accused. What a cart may hold that was cut off is not known.
func TestStepsOfRightShops(t *testing.T) {
	t.Parallel()
	every := func(n int, step, what string) func(string, int) string {
		return func(at string, i int) string {
			if at == step && i%n == 0 {
				return what
			}
			return ""
		}
	}
	slow := func(_ *stepShop, _ http.ResponseWriter, _ *http.Request, _ []string) bool {
		time.Sleep(100 * time.Millisecond)
		return false
	}
	// late shows an order when it is 150 ms old, and until it is 100 ms older as one that waits.
	late := func(s *stepShop, w http.ResponseWriter, r *http.Request, all []string) bool {
		var shown []string
		for i, o := range s.orders {
			switch age := time.Since(o.at); {
			case age > 150*time.Millisecond:
				shown = append(shown, all[i])
			case age > 50*time.Millisecond && s.later:
				shown = append(shown, strings.Replace(all[i], o.state, "pending", 1))
			}
		}
		page(w, r, shown, 7)
		return true
	}
	// shifting puts an order of somebody else in front while the first two times are read.
	shifting := func(s *stepShop, w http.ResponseWriter, r *http.Request, all []string) bool {
		for i := range min(s.listing, 5) {
			all = append([]string{fmt.Sprintf(`{"id":"else-%d","state":"new","lines":[]}`, i)}, all...)
		}
		page(w, r, all, 3)
		return true
	}
	cut := func(_ *stepShop, w http.ResponseWriter, r *http.Request, all []string) bool {
		from, _ := strconv.Atoi(r.FormValue("offset"))
		page := all[min(from, len(all)):min(5, len(all))]
		fmt.Fprintf(w, `{"orders":[%s],"count":%d}`, strings.Join(page, ","), len(all))
		return true
	}
	for _, row := range []struct {
		name    string
		trouble func(string, int) string
		list    func(*stepShop, http.ResponseWriter, *http.Request, []string) bool
		want    loadtest.Finding // or undecided, if carts hold units
	}{
		{"a slow list", nil, slow, loadtest.Holds},
		{"a late list", nil, late, loadtest.Holds},
		{"a list that shifts", nil, shifting, loadtest.Holds},
		{"a list that is cut", nil, cut, loadtest.Undecided},
		{"carts that are cut", every(4, "POST carts", "cut"), nil, loadtest.Holds},
		{"lines that are cut", every(4, "POST carts lines", "serve and cut"), nil, loadtest.Holds},
		{"lines that fail", every(4, "POST carts lines", "fail"), nil, loadtest.Holds},
		{"lines that are busy", every(2, "POST carts lines", "busy"), nil, loadtest.Holds},
		{"checkouts that are cut", every(4, "POST carts checkout", "cut"), nil, loadtest.Holds},
		{"checkouts whose reply is cut", every(4, "POST carts checkout", "serve and cut"), nil, loadtest.Holds},
		{"checkouts that are busy", every(3, "POST carts checkout", "busy"), nil, loadtest.Holds},
		{"waits that are cut", every(4, "GET order", "cut"), nil, loadtest.Holds},
		{"waits that are cut, and a late list", every(4, "GET order", "cut"), late, loadtest.Holds},
		{
			"checkouts whose reply is cut, and a cut list", every(4, "POST carts checkout", "serve and cut"), cut,
			loadtest.Undecided,
		},
	} {
		for n := range 4 {
			later, holds := n&1 > 0, n&2 > 0
			t.Run(fmt.Sprintf("%s, later %v, holds %v", row.name, later, holds), func(t *testing.T) {
				t.Parallel()
				s := &stepShop{later: later, holds: holds, trouble: row.trouble, list: row.list}
				v := buy(t, s, s.mapping(), "shirt", 15).Verdict
				unknown := v.Finding == loadtest.Undecided && (holds && row.trouble != nil || v.AcceptedUnits == 0)
				if v.Finding != row.want && !unknown {
					t.Errorf("%s: %v", v.Finding, v.Reasons)
				}
			})
		}
	}
}

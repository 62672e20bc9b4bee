package mapping_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// A shelf is the stock behind the small shops of these tests, with the orders of it. What is sold stays on hand until
// it is shipped, which nobody does here.
type shelf struct {
	mu           sync.Mutex
	racing       bool // sells by what an earlier request has read
	onHand, held int64
	seen         int64 // the units left when somebody last read
	orders       []shelfOrder
}

type shelfOrder struct {
	id, ref, state string
	units          int64
}

func (s *shelf) put(onHand int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onHand = onHand
	s.seen = s.onHand - s.held
}

// sell returns the id of an order, or "" if there are too few units. The order of a refused request is rejected.
func (s *shelf) sell(units int64, ref string) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.racing || len(s.orders)%4 == 0 {
		s.seen = s.onHand - s.held
	}
	id = "o-" + strconv.Itoa(len(s.orders)+1)
	if s.seen < units {
		s.orders = append(s.orders, shelfOrder{id, ref, "rejected", units})
		return ""
	}
	s.held += units
	s.orders = append(s.orders, shelfOrder{id, ref, "confirmed", units})
	return id
}

func (s *shelf) listed() []shelfOrder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]shelfOrder(nil), s.orders...)
}

func (s *shelf) stock() (onHand, held int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onHand, s.held
}

// judge puts load on a shop that has 10 units, and asks for 15.
func judge(t *testing.T, handler http.Handler, text, sku string) *loadtest.Result {
	t.Helper()
	target, file := reach(t, handler, text, 4)
	r, err := loadtest.Run(t.Context(), target, loadtest.Plan{
		Strategy: file.Name(), SKU: sku, Stock: 10, Requests: 15, Concurrency: 4,
		Recheck: new(time.Duration), Late: time.Millisecond,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// judgeBoth judges a shop that is right, which must hold, and the same when it races, which must be seen to oversell.
func judgeBoth(t *testing.T, shop func(*shelf) http.Handler, text, sku string) {
	t.Helper()
	for _, racing := range []bool{false, true} {
		t.Run(map[bool]string{false: "right", true: "racing"}[racing], func(t *testing.T) {
			t.Parallel()
			r := judge(t, shop(&shelf{racing: racing}), text, sku)
			outcomes := make(map[loadtest.Outcome]int)
			for i := range r.Records {
				outcomes[r.Records[i].Outcome]++
			}
			v, sold := &r.Verdict, outcomes[loadtest.Accepted]
			if !racing && (v.Finding != loadtest.Holds || sold != 10 || outcomes[loadtest.SoldOut] != 5) ||
				racing && (v.Finding != loadtest.Broken || v.OversoldUnits != int64(sold)-10 || sold <= 10) {
				t.Errorf("%s: %v %v", v.Finding, outcomes, v.Reasons)
			}
		})
	}
}

// A shop with several places of stock, several lines in an order, and orders that were none.
func linesShop(s *shelf) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /stock", func(_ http.ResponseWriter, r *http.Request) {
		_, held := s.stock()
		n, _ := strconv.ParseInt(r.FormValue("n"), 10, 64)
		s.put(n + held)
	})
	mux.HandleFunc("GET /stock", func(w http.ResponseWriter, _ *http.Request) {
		onHand, held := s.stock()
		fmt.Fprintf(w, `[{"at":{"name":"far"},"on_hand":7,"held":1},{"at":{"name":"main"},"on_hand":%d,"held":%d}]`,
			onHand, held)
	})
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Ref string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		id := s.sell(1, in.Ref)
		if id == "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"errors":[{"code":"shop_out_of_stock"}],"warning":null}`)
			return
		}
		w.Header().Set("X-Order", id)
		fmt.Fprint(w, `{"errors":[]}`)
	})
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) {
		list := []string{`{"id":"other","state":"confirmed","lines":[{"item":{"sku":"y"},"count":3}]}`}
		for _, o := range s.listed() {
			list = append(list, fmt.Sprintf(`{"id":%q,"state":%q,"lines":[{"item":{"sku":"y"},"count":3},`+
				`{"item":{"sku":"7"},"count":%d}, {"item":{"sku":7.0},"count":0}],"note":%q}`, o.id, o.state, o.units,
				o.ref))
		}
		fmt.Fprintf(w, `[%s]`, strings.Join(list, ","))
	})
	return mux
}

const linesMapping = `
set: {method: POST, path: "/stock?n={{quantity}}"}
read: {path: /stock, quantity: "[at.name=main].on_hand", less: "[at.name=main].held"}
deduct:
  path: /orders
  body: '{"ref": "{{request_id}}"}'
  accepted: [{status: 201}, {status: 200, field: header:X-Order, exists: true}]
  sold_out: {status: 400, field: "errors.0.code", contains: [sold, stock]}
  busy: {status: 429}
  order_id: header:X-Order
orders:
  path: /orders
  list: .
  where: {field: state, not: [rejected, cancelled]}
  order_id: id
  quantity: lines[item.sku={{sku}}].count
  request_id: note
`

func TestLinesOfOrders(t *testing.T) { judgeBoth(t, linesShop, linesMapping, "7") }

// A rule is matched by what is there, and null is not there.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		rule, reply string
		accepted    bool
	}{
		{"{field: a, exists: true}", `{"a":0}`, true},
		{"{field: a, exists: true}", `{"a":null}`, false},
		{"{field: a, exists: true}", `{"b":1}`, false},
		{"{field: a, exists: false}", `{"b":1}`, true},
		{"{field: a, exists: false}", `{"a":null}`, true},
		{"{field: a, exists: false}", `{"a":{}}`, false},
		{"{field: a, not: x}", `{"a":"y"}`, true},
		{"{field: a, not: [x, y]}", `{"a":"y"}`, false},
		{"{field: a, not: x}", `{"a":null}`, false},
		{"{field: a, not: x}", `{}`, false},
		{"{field: a, not: 1}", `{"a":1.0}`, false},
		{"{field: a, contains: tock}", `{"a":"out of stock"}`, true},
		{"{field: a, contains: [x, tock]}", `{"a":"out of stock"}`, true},
		{"{field: a, contains: tock}", `{"a":"Stocks"}`, true},
		{"{field: a, contains: STOCK}", `{"a":"stock"}`, false},
		{"{field: a, contains: l}", `{"a":null}`, false},
		{"{field: ., contains: Sorry}", `<html>Sorry, sold out`, true},
		{"[{field: a, equals: 1}, {field: b, equals: 2}]", `{"b":2}`, true},
		{"[{field: a, equals: 1}, {field: b, equals: 2}]", `{"a":2,"b":1}`, false},
		{"{field: 'e[code=9].at', equals: here}", `{"e":[{"code":8},{"code":9.0,"at":"here"}]}`, true},
		{"{field: 'e[code=9]', exists: false}", `{"e":[{"code":8}]}`, true},
		{"{field: 'e[code=9].at', equals: here}", `{"e":[{"code":8,"at":"here"}]}`, false},
		{"{field: 'e[a=b][c.d=e].f', equals: 1}", `{"e":[{"a":"b","f":1}]}`, false},
		{"{field: '/e[a=b]', equals: 1}", `{"e[a=b]":1}`, true},
		{"{field: header:content-type, contains: plain}", `text`, true},
	} {
		text := strings.Replace(least, "{status: 200}", row.rule, 1)
		target := canned(t, text, map[string]string{"/buy": row.reply})
		got := target.Deduct(t.Context(), loadtest.Request{SKU: "x", Quantity: 1, RequestID: "r"})
		if (got.Outcome == loadtest.Accepted) != row.accepted {
			t.Errorf("%s, and the reply is %s: %+v", row.rule, row.reply, got)
		}
	}
}

// What a mapping says of several values, of none, and of no numbers.
func TestNumbersThatAreNotToBeHad(t *testing.T) {
	t.Parallel()
	const text = `
read: {path: /left, quantity: "l[at=x].n", less: "l[at=y].n"}
deduct: {path: /buy, accepted: {status: 200}, order_id: id}
orders: {path: /orders, list: ., order_id: id, quantity: "l[sku=x].n"}
`
	for _, row := range []struct{ left, orders, want string }{
		{`{"l":[{"at":"x","n":5},{"at":"y","n":2}]}`, `[{"id":1,"l":[{"sku":"x","n":1},{"sku":"x","n":2}]}]`, ""},
		{`{"l":[{"at":"x","n":5}]}`, ``, "has no number at l[at=y].n (read.less)"},
		{`{"l":[{"at":"x","n":5},{"at":"x","n":5}]}`, ``, "has 2 values at l[at=x].n, and only one can be meant"},
		{
			`{"l":[{"at":"x","n":-9223372036854775807},{"at":"y","n":2}]}`, ``,
			"has -9223372036854775807 less 2, which is too much for a number (read.less)",
		},
		{``, `[{"id":1,"l":[{"sku":"x","n":1},{"sku":"x","n":"a"}]}]`, `has "a" at l[sku=x].n`},
		{``, `[{"id":1,"l":[{"sku":"x"}]}, {"id":2,"l":[{"sku":"x","n":0}]}]`, "has 0 at l[sku=x].n"},
		{``, `[{"id":1,"l":[{"sku":"x","n":9e18},{"sku":"x","n":9e18}]}]`, "whose sum is too large"},
	} {
		target := canned(t, text, map[string]string{"/left": row.left, "/orders": row.orders})
		s, failed := target.Stock(t.Context(), "", "x")
		if row.left == "" {
			_, failed = target.Orders(t.Context(), "", "x")
		}
		if row.want != "" {
			if failed == nil || !strings.Contains(failed.Error(), row.want) {
				t.Errorf("%s%s: %v", row.left, row.orders, failed)
			}
			continue
		}
		orders, err := target.Orders(t.Context(), "", "x")
		if failed != nil || s.Quantity != 3 || err != nil || len(orders) != 1 || orders[0].Quantity != 3 {
			t.Errorf("%+v, %v; %+v, %v", s, failed, orders, err)
		}
	}
}

func TestWrongPlacesAndRules(t *testing.T) {
	t.Parallel()
	with := func(rules string) string { return strings.Replace(least, "accepted: {status: 200}", rules, 1) }
	orders := strings.Replace(least, "path: /buy", "path: /buy, order_id: id", 1) +
		"orders: {path: /o, list: ., order_id: id, quantity: n, "
	for _, row := range []struct{ text, want string }{
		{with("accepted: {field: 'a[b=c', equals: 1}"), "line 3: deduct.accepted.field: \"a[b=c\" has [ without ]"},
		{with("accepted: {field: 'a[b].c', equals: 1}"), "has the filter [b]: write list[field=value]"},
		{with("accepted: {field: 'a[b=c]d', equals: 1}"), "is no place in JSON"},
		{with("accepted: {field: 'a.[b=c]', equals: 1}"), "is no place in JSON"},
		{with("accepted: {field: 'a[b=c].', equals: 1}"), "is no place in JSON"},
		{with("accepted: {field: 'a[b={{c}}]', equals: 1}"), "{{c}} is not known here"},
		{with("accepted: {field: 'header:', equals: 1}"), `"" is no name of a header`},
		{
			with("accepted: {field: a, equals: 1, not: 2}"),
			"line 3: deduct.accepted: must have one of equals and not",
		},
		{with("accepted: {field: a}"), "must have field and equals together"},
		{with("accepted: {contains: a}"), "must have field and contains together"},
		{with("accepted: {field: a, exists: maybe}"), "line 3: deduct.accepted.exists: must be true or false"},
		{with("accepted: {field: a, exists: [true, false]}"), "must be true or false"},
		{with("accepted: {field: a, contains: ''}"), "contains: is empty"},
		{with("accepted: []"), "line 3: deduct.accepted: is an empty list"},
		{with("accepted: [{status: 200}, {}]"), "must have status, or field with equals"},
		{with("accepted: [{status: 200}, {stat: 1}]"), "stat: is no key of deduct.accepted"},
		{orders + "where: {status: 200}}", "line 4: orders.where: is about entries of the list"},
		{orders + "where: {field: header:X, equals: 1}}", "line 4: orders.where: is about entries of the list"},
		{orders + "request_id: header:X}", "line 4: orders.request_id: is a header of the reply"},
		{
			with("accepted: {field: a, not: 1}, busy: {field: a, not: 2}"),
			"deduct.busy: takes status 200, as accepted does",
		},
	} {
		_, err := mapping.Parse([]byte(row.text))
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %s", row.text, err, row.want)
		}
	}
}

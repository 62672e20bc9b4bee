package mapping_test

import (
	"strconv"
	"strings"
	"sync"
	"testing"

	"example.com/stock/loadtest"
)

// A shelf is the stock behind the small shops of these tests, with the orders of it. What is sold stays on hand until
// it is shipped, which nobody does here.
type shelf struct {
	mu           sync.Mutex
	onHand, held int64
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
}

// sell returns the id of an order, or "" if there are too few units. The order of a refused request is rejected.
func (s *shelf) sell(units int64, ref string) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id = "o-" + strconv.Itoa(len(s.orders)+1)
	if s.onHand-s.held < units {
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
		{"{field: '[at.name=y].n', equals: 1}", `[{"at":{"name":"x"}},{"at":{"name":"y"},"n":1}]`, true},
		{"{field: 'e.0.code', equals: 9}", `{"e":[{"code":9},{"code":8}]}`, true},
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

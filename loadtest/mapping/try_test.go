package mapping_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"example.com/stock/loadtest/mapping"
)

// try tries a mapping, and returns what was shown.
func try(t *testing.T, s http.Handler, text, lang string) (found int, shown string) {
	t.Helper()
	target, _ := reach(t, s, text, 1)
	var out strings.Builder
	found, err := target.Try(t.Context(), "shirt", &out, lang)
	if err != nil {
		t.Fatal(err)
	}
	return found, out.String()
}

// A trial of a right mapping shows all that was said and understood, and finds nothing.
func TestTry(t *testing.T) {
	t.Parallel()
	for _, later := range []bool{false, true} {
		s := &stepShop{later: later}
		found, shown := try(t, s, s.mapping(), "en")
		for _, want := range []string{
			"POST /carts/c1/lines", `> {"variant":"v_17","count":1}`, "400 Bad Request", `< {"code":"out_of_stock"}`,
			"= saved cart: c1", "= 2 left", "= sold c1", "= sold out", "= 1 order of this SKU",
			"Nothing wrong was found.",
		} {
			if !strings.Contains(shown, want) {
				t.Errorf("later %v: %q is not shown:\n%s", later, want, shown)
			}
		}
		if found != 0 {
			t.Errorf("later %v: %d things are found:\n%s", later, found, shown)
		}
	}
	s := &stepShop{later: true}
	if found, shown := try(t, s, s.mapping(), "zh"); found != 0 || !strings.Contains(shown, "没有发现问题。") {
		t.Error(shown)
	}
}

// A pool is a service whose number of units includes those that are sold. It takes any of them at most once.
type pool struct {
	mu           sync.Mutex
	total, taken int
}

func (p *pool) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		var in struct{ Total int }
		_ = json.NewDecoder(r.Body).Decode(&in)
		p.total = in.Total
	case http.MethodPost:
		if p.taken >= p.total {
			w.WriteHeader(http.StatusConflict)
			return
		}
		p.taken++
	}
	fmt.Fprintf(w, `{"total":%d,"taken":%d}`, p.total, p.taken)
}

// A mapping that sets the stock right once, and not again, is found.
func TestTryOfAPool(t *testing.T) {
	t.Parallel()
	const once = `
name: pool
set: {method: PUT, path: /pool, body: {total: "{{quantity:number}}"}}
read: {path: /pool, quantity: total, less: taken}
deduct: {path: /pool, accepted: {status: 200}, sold_out: {status: 409}, order_id: taken}
`
	found, shown := try(t, &pool{}, once, "en")
	if found != 1 || !strings.Contains(shown, "then said that there are 0") {
		t.Errorf("%d found:\n%s", found, shown)
	}
	again := strings.Replace(once, `{method: PUT, path: /pool, body: {total: "{{quantity:number}}"}}`, `
  steps:
    - {method: GET, path: /pool, save: {taken: taken}}
    - {method: PUT, path: /pool, body: {total: "{{quantity+taken:number}}"}}`, 1)
	if found, shown := try(t, &pool{}, again, "en"); found != 0 {
		t.Errorf("%d found:\n%s", found, shown)
	}
}

// Each mistake is found, with its line and key. Secrets are not shown.
func TestTryOfMistakes(t *testing.T) {
	t.Parallel()
	text := strings.Replace(stepMapping, "late: 200ms", "late: 20ms", 1)
	replace := func(old, by string) string { return strings.Replace(text, old, by, 1) }
	takes := &stepShop{later: true, own: func(s *stepShop, c *stepCart, _ http.ResponseWriter) {
		c.units = 1
		s.onHand--
	}, cheat: func(_ *stepShop, step string, _ int) bool { return step == "POST carts lines" }}
	refusesLate := &stepShop{later: true, own: func(_ *stepShop, c *stepCart, _ http.ResponseWriter) {
		c.units = 1 // whatever is left: checkout decides
	}, cheat: takes.cheat}
	for _, row := range []struct {
		shop *stepShop
		text string
		want []string
	}{
		{nil, replace("save: {order: id}", "save: {order: id, more: id}"), []string{
			"line 19: deduct.steps.checkout.save.more: is saved, and nothing uses it",
		}},
		{nil, replace("contains: stock}", "contains: none}"), []string{
			"deduct.steps.line: took no reply when 3 units were sold; the last one fits this: " +
				`sold_out: {status: 400, field: code, equals: "out_of_stock"}`,
		}},
		{nil, replace("quantity: on_hand, less: reserved", "quantity: on_hand"), []string{
			"then said that there are 5: does somebody else",
		}},
		{nil, replace("where: {field: state, not: rejected}", "where: {field: state, equals: done}"), []string{
			"orders: order c1 is not among the 0 orders of this SKU after ", "orders.where: took no reply",
		}},
		{
			nil, replace("request_id: note", "request_id: id"),
			[]string{`orders: order c1 has the request id "c1", and "try-`},
		},
		{nil, replace("next: {total: count}", "next: {total: more}"), []string{"has no number at more (orders.next)"}},
		{nil, replace("equals: confirmed", "equals: fine"), []string{
			"deduct.steps.wait: the purchase ended as unknown: step wait: status 200 with",
		}},
		{
			nil, replace("path: /carts, ", "path: '/carts/none/{{token}}', "),
			[]string{"has nothing at header:Cart-Token"},
		},
		{refusesLate, replace("  where: {field: state, not: rejected}\n", ""), []string{
			"orders: order c4 is listed, and its purchase was refused",
		}},
		{takes, text, []string{
			"deduct.steps.line: the stock is 2 after this step already",
		}},
		{&stepShop{later: true, trouble: func(string, int) string { return "fail" }}, text, []string{
			"set.steps.1: http://", " answers GET /stock/v_17 with status 500, not [2xx] as the mapping says",
		}},
	} {
		if row.shop == nil {
			row.shop = &stepShop{later: true}
		}
		found, shown := try(t, row.shop, row.text, "en")
		said := true
		for _, want := range row.want {
			said = said && strings.Contains(shown, want)
		}
		if found == 0 || !said || strings.Contains(shown, "s3cret") {
			t.Errorf("%d found; want %s:\n%s", found, row.want, shown)
		}
	}
	file, err := mapping.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	target, err := mapping.NewTarget("http://127.0.0.1:1", "", 1, file)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if found, err := target.Try(t.Context(), "shirt", new(strings.Builder), "en"); err == nil {
		t.Error(found, fmt.Sprint(err))
	}
}

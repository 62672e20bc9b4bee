package mapping_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// A request that does not sell is sent again after a busy reply. A sale is not: it is busy.
func TestWhatIsAskedAgain(t *testing.T) {
	t.Parallel()
	asked := make(map[string]int)
	target, _ := reach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked[r.Method]++; asked[r.Method] < 3 {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		fmt.Fprint(w, `{"stock":7}`)
	}), "busy: {status: 429, wait: 1ms}"+least, 1)
	left, err := target.Stock(t.Context(), "", "x")
	sale := target.Deduct(t.Context(), loadtest.Request{SKU: "x", Quantity: 1, RequestID: "r"})
	if err != nil || left.Quantity != 7 || sale.Outcome != loadtest.Busy || asked["GET"] != 3 || asked["POST"] != 1 {
		t.Errorf("%+v, %v; %+v; asked %v", left, err, sale, asked)
	}
}

func TestBusyWait(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		busy, header string
		want         time.Duration
	}{
		{"{status: 429}", "7", 0}, // as mappings before there was wait
		{"{status: 429, wait: 20ms}", "7", 20 * time.Millisecond},
		{"{status: 429, wait: 'header:Retry-After'}", "7", 7 * time.Second},
		{"{status: 429, wait: 'header:Retry-After'}", "0.5", time.Second / 2},
		{"{status: 429, wait: 'header:Retry-After'}", "86400", time.Minute},
		{"{status: 429, wait: 'header:Retry-After'}", "-1", time.Second},
		{"{status: 429, wait: 'header:Retry-After'}", "", time.Second},
		{"{status: 429, wait: 'header:Retry-After'}", "Mon, 01 Jan 2001 00:00:00 GMT", 0},
		{"[{status: 503, wait: 2s}, {status: 429, wait: 3s}]", "", 3 * time.Second},
	} {
		target, _ := reach(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", row.header)
			w.WriteHeader(http.StatusTooManyRequests)
		}), strings.Replace(least, "path: /buy", "path: /buy, busy: "+row.busy, 1), 1)
		got := target.Deduct(t.Context(), loadtest.Request{SKU: "x", Quantity: 1, RequestID: "r"})
		if got.Outcome != loadtest.Busy || got.Wait != row.want {
			t.Errorf("%s, and the header is %q: %s, %v", row.busy, row.header, got.Outcome, got.Wait)
		}
	}
}

// A body that is a table is JSON, whatever the values are.
func TestBodyTable(t *testing.T) {
	t.Setenv("STOCK_TEST_NAME", `a"b`)
	const text = `
read: {path: /left, quantity: n}
deduct:
  path: /buy
  body:
    item: {sku: "{{sku}}", "a\"b": "x\"{{sku}}<{{env.STOCK_TEST_NAME}}"}
    n: ["{{quantity:number}}", "{{quantity+quantity}}", "{{quantity + quantity : number}}", 7, 1.5, 0x10, "8"]
    rest: [true, null, ~, [], {}, "", no]
  accepted: {status: 200}
`
	var sent any
	target, _ := reach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&sent); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	}), strings.Replace(text, " : number", ":number", 1), 1)
	const sku = "é\"\\{{quantity}}\n"
	got := target.Deduct(t.Context(), loadtest.Request{SKU: sku, Quantity: 2, RequestID: "r"})
	want := map[string]any{
		"item": map[string]any{"sku": sku, `a"b`: `x"` + sku + `<a"b`},
		"n":    []any{2.0, "4", 4.0, 7.0, 1.5, "0x10", "8"},
		"rest": []any{true, nil, nil, []any{}, map[string]any{}, "", "no"},
	}
	if got.Outcome != loadtest.Accepted || !reflect.DeepEqual(sent, want) {
		t.Errorf("%+v; sent %v, want %v", got, sent, want)
	}
}

// What is no whole number is not sent as one.
func TestSumOfText(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{a: "{{sku:number}}"}`: `{{sku}}: sku is "x", which is no whole number`,
		`'"{{quantity+sku}}"'`:  `{{quantity+sku}}: sku is "x", which is no whole number`,
	} {
		target := canned(t, strings.Replace(least, "path: /buy", "path: /buy, body: "+body, 1), nil)
		got := target.Deduct(t.Context(), loadtest.Request{SKU: "x", Quantity: 1, RequestID: "r"})
		if got.Outcome != loadtest.Failed || !strings.Contains(got.Error, want) {
			t.Errorf("%s: %+v", body, got)
		}
	}
}

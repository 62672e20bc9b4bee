package mapping_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// reach starts a service, and returns the target that a mapping makes of it.
func reach(t testing.TB, service http.Handler, text string, connections int) (*mapping.Target, *mapping.File) {
	t.Helper()
	file, err := mapping.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service)
	t.Cleanup(server.Close)
	target, err := mapping.NewTarget(server.URL, "s3cret", connections, file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(target.Close)
	return target, file
}

// canned returns a target whose service answers each path with a text.
func canned(t testing.TB, text string, replies map[string]string) *mapping.Target {
	t.Helper()
	target, _ := reach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, replies[r.URL.RequestURI()])
	}), text, 1)
	return target
}

// JSON has one kind of number, and shops write whole ones in all its forms: with a fraction (PHP, Python), in quotes as
// their database prints decimals, with an exponent (Java). Some begin with a byte order mark (.NET).
func TestWholeNumbersOfShops(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		`40`: 40, `40.0`: 40, `"40"`: 40, `"40.0000"`: 40, `4e1`: 40, `4.0E+1`: 40, `"4E+1"`: 40, `400e-1`: 40,
		`0E-8`: 0, `"0.00"`: 0, `-0.0`: 0, `-3.0`: -3, `" 40 "`: 40, `9007199254740993.0`: 9007199254740993,
		`9223372036854775807.00`: 9223372036854775807, `1e18`: 1e18, `-0E-8`: 0, `"+5"`: 5,
		`0e999`: 0, `1000000.000`: 1e6,
		`40.5`: -1, `"40,0"`: -1, `"4 0"`: -1, `"1,000"`: -1, `"40 units"`: -1, `""`: -1, `"."`: -1, `"-"`: -1,
		`"e1"`: -1, `"-e1"`: -1, `"+-0.0"`: -1, `"1.-5"`: -1, `"1.2.3"`: -1, `"1e"`: -1,
		`1e-1`: -1, `1e19`: -1, `9223372036854775808.0`: -1, `1e999999999999`: -1,
		`"1e99999999999999999999"`: -1, `"0x28"`: -1, `"NaN"`: -1, `true`: -1, `null`: -1, `[40]`: -1,
	} {
		refused := want == -1
		for _, mark := range []string{"", "\ufeff"} {
			target := canned(t, least, map[string]string{"/items/x": mark + `{"stock":` + text + `}`})
			s, err := target.Stock(t.Context(), "", "x")
			if (err != nil) != refused || !refused && s.Quantity != want {
				t.Errorf("%q%s: %d, %v", mark, text, s.Quantity, err)
			}
		}
	}
}

// Numbers are compared as numbers, whichever way the file and the reply write them; truth and null likewise.
func TestEqualsOfShops(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		equals, reply string
		accepted      bool
	}{
		{"0", "0", true},
		{"0", "0.0", true},
		{"0.0", "0", true},
		{"200", "2e2", true},
		{"0", `"0"`, true},
		{"0", "false", false},
		{"0", "1", false},
		{"1.5", "1.5", true},
		{"true", "true", true},
		{"True", "true", true},
		{"true", "false", false},
		{"'True'", "true", false},
		{"null", "null", true},
		{"~", "null", true},
		{"null", "0", false},
		{"null", `""`, false},
		{"OK", "null", false},
	} {
		text := strings.Replace(least, "status: 200", "status: 200, field: code, equals: "+row.equals, 1)
		target := canned(t, text, map[string]string{"/buy": "\ufeff" + `{"code":` + row.reply + `}`})
		got := target.Deduct(t.Context(), loadtest.Request{SKU: "x", Quantity: 1, RequestID: "r"})
		if (got.Outcome == loadtest.Accepted) != row.accepted {
			t.Errorf("equals: %s, and the reply is %s: %+v", row.equals, row.reply, got)
		}
	}
}

// The last page says so in many ways. An order id is the same number in a reply and in the list.
func TestLastPagesOfShops(t *testing.T) {
	t.Parallel()
	const text = `
read: {path: "/left", quantity: n}
deduct: {path: /buy, accepted: {status: 200}, order_id: id}
orders: {path: "/orders?c={{cursor}}", list: items, next: next, order_id: id, quantity: n}
`
	for next, why := range map[string]string{
		`,"next":null`: "", ``: "", `,"next":""`: "", `,"next":false`: "", `,"next":0`: "", `,"next":"0"`: "",
		`,"next":[]`: "", `,"next":{}`: "",
		`,"next":true`: "has true at next, which is no cursor (orders.next)",
	} {
		target := canned(t, text, map[string]string{
			"/buy":        `{"id": 1001}`,
			"/orders?c=":  `{"items":[{"id":1001.0,"n":"1.0000"}],"next":7.0}`,
			"/orders?c=7": `{"items":[{"id":1002,"n":1}]` + next + `}`,
			"/orders?c=0": `{"items":[{"id":1001.0,"n":"1.0000"}],"next":7.0}`,
		})
		orders, err := target.Orders(t.Context(), "", "x")
		if why != "" {
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", next, err)
			}
			continue
		}
		reply := target.Deduct(t.Context(), loadtest.Request{SKU: "x", Quantity: 1, RequestID: "r"})
		if err != nil || len(orders) != 2 || !slices.ContainsFunc(orders, func(o loadtest.Order) bool {
			return o.OrderID == reply.OrderID && o.Quantity == 1
		}) {
			t.Errorf("%s: %+v, %+v, %v", next, reply, orders, err)
		}
	}
}

package mapping_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// A link leads to the next page until there is none.
func TestPagesByLink(t *testing.T) {
	t.Parallel()
	target, _ := reach(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from, _ := strconv.Atoi(r.FormValue("from"))
		if from < 2 {
			w.Header().Add("Link", fmt.Sprintf(`</o?from=0>; rel="first", </o?from=%d>; rel="next"`, from+1))
		}
		fmt.Fprintf(w, `[{"id":%d,"n":1}]`, from)
	}), ofOrders("next: {link: next}"), 1)
	if orders, err := target.Orders(t.Context(), "", "x"); err != nil || len(orders) != 3 || orders[2].OrderID != "2" {
		t.Errorf("%+v, %v", orders, err)
	}
}

// A list that does not lead where it says is a part at most, or an error that names what is wrong.
func TestPagesThatLeadAstray(t *testing.T) {
	t.Parallel()
	const text = `
read: {path: /left, quantity: n}
deduct: {path: /buy, accepted: {status: 200}, order_id: id}
orders: {path: "/orders?`
	const rest = `, list: i, order_id: id, quantity: n}`
	for _, row := range []struct{ query, next, link, reply, want string }{
		{"", "{link: next}", "<http://evil.example/orders>; rel=next", `{"i":[]}`, `to another host, "evil.example"`},
		{"", "{link: next}", "<//evil.example/orders>; rel=next", `{"i":[]}`, `to another host, "evil.example"`},
		{"", "{link: next}", "<https:///orders>; rel=next", `{"i":[]}`, "to another host"},
		{"", "{link: next}", "</orders?>; rel=next", `{"i":[]}`, "a link that it gave before"},
		{"", "{link: next}", "</%zz>; rel=next", `{"i":[]}`, "a link that is no URL"},
		{"", "{link: next}", "</" + strings.Repeat("x", 8<<10) + ">; rel=next", `{"i":[]}`, "a link of 8193 bytes"},
		{"p={{page}}", "{total: c}", "", `{"i":[{"id":1,"n":1}],"c":2}`, "1 entries came twice"},
		{"p={{page}}", "{total: c}", "", `{"i":[],"c":2}`, "c: 2, and 0 were read"},
		{"p={{page}}", "{total: c}", "", `{"i":[{"id":1,"n":1}],"c":0}`, "c: 0, and 1 were read"},
		{"p={{page}}", "{total: c}", "", `{"i":[]}`, "has no number at c (orders.next)"},
		{"p={{page}}", "{pages: c}", "", `{"i":[],"c":2}`, "c: 2, and 1 were read"},
		{"p={{cursor}}", "{cursor: c, more: m}", "", `{"i":[],"m":true}`, "true at m, and no cursor at c"},
		{"p={{cursor}}", "{cursor: c, more: m}", "", `{"i":[],"m":true,"c":7}`, "a cursor that it gave before"},
		{"p={{cursor}}", "{cursor: c, more: m}", "", `{"i":[],"m":false,"c":7}`, ""},
		{"p={{page}}", "{total: c}", "", `{"i":[],"c":0}`, ""},
		{"p={{page}}", "{pages: c}", "", `{"i":[{"id":1,"n":1}],"c":1}`, ""},
	} {
		asked := 0
		target, _ := reach(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			if row.link != "" {
				w.Header().Set("Link", row.link)
			}
			fmt.Fprint(w, row.reply)
		}), text+row.query+`", next: `+row.next+rest, 1)
		_, err := target.Orders(t.Context(), "", "x")
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) || asked > 2 ||
			len(fmt.Sprint(err)) > 2<<10 {
			t.Errorf("%s %s %s: %v, after %d pages", row.next, row.link[:min(40, len(row.link))], row.reply, err, asked)
		}
	}
}

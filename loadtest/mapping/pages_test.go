package mapping_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// pagesShop lists its orders, three a page, and tells of the next page in every way that there is.
func pagesShop(s *shelf) http.Handler {
	const size = 3
	next := linesShop(s)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/orders" {
			next.ServeHTTP(w, r)
			return
		}
		all := s.listed()
		from, _ := strconv.Atoi(r.FormValue("from"))
		if page, err := strconv.Atoi(r.FormValue("page")); err == nil {
			from = (page - 1) * size
		}
		from = min(from, len(all))
		to := min(from+size, len(all))
		if to < len(all) {
			w.Header().Add("Link", fmt.Sprintf(`</orders?from=0>; rel="first", </orders?from=%d>; rel="next"`, to))
		}
		w.Header().Set("X-Pages", strconv.Itoa((len(all)+size-1)/size))
		var list []string
		for _, o := range all[from:to] {
			list = append(list, fmt.Sprintf(`{"id":%q,"state":%q,"lines":[{"item":{"sku":"7"},"count":%d}],"note":%q}`,
				o.id, o.state, o.units, o.ref))
		}
		fmt.Fprintf(w, `{"items":[%s],"count":%d,"end":"%d","more":%t}`, strings.Join(list, ","), len(all), to,
			to < len(all))
	})
}

func pagesMapping(query, next string) string {
	return strings.NewReplacer("  path: /orders\n  list: .\n", "  path: \"/orders?"+query+"\"\n  list: items\n"+
		"  next: "+next+"\n").Replace(linesMapping)
}

func TestPages(t *testing.T) {
	for _, row := range []struct{ query, next string }{
		{"", "{link: next}"},
		{"from={{offset}}", "{pages: 'header:X-Pages'}"},
	} {
		t.Run(row.query+row.next, func(t *testing.T) {
			judgeBoth(t, pagesShop, pagesMapping(row.query, row.next), "7")
		})
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

// A list that was cut off proves nothing of the orders that are not in it.
func TestPagesCutOff(t *testing.T) {
	t.Parallel()
	s := &shelf{}
	cut := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("page") == "2" {
			fmt.Fprintf(w, `{"items":[],"count":%d}`, len(s.listed()))
			return
		}
		pagesShop(s).ServeHTTP(w, r)
	})
	r := judge(t, cut, pagesMapping("page={{page}}", "{total: count}"), "7")
	if v := &r.Verdict; v.Finding != loadtest.Undecided || v.Phantoms > 0 ||
		!strings.Contains(fmt.Sprint(v.Reasons), "orders.next") {
		t.Errorf("%s: %v", v.Finding, v.Reasons)
	}
}

func TestWrongPages(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ query, next, want string }{
		{"", "{}", "next: must have one of cursor, link, pages and total, and has 0 of them"},
		{"p={{page}}", "{pages: a, total: b}", "next: must have one of cursor, link, pages and total, and has 2"},
		{"", "{link: prev}", `next.link: "prev" is not known; there is next`},
		{"", "{total: a}", "next: needs {{page}} or {{offset}} in path or body"},
		{"", "{cursor: a}", "next: needs {{cursor}} in path or body"},
		{"p={{page}}", "{link: next}", "next: is missing: {{page}} and {{offset}} need pages or total"},
		{"p={{cursor}}&q={{page}}", "{total: a}", "next: is missing: {{cursor}} needs"},
		{"p={{page}}", "{total: a, more: b}", "next.more: is no key of orders.next"},
		{"p={{page}}", "{total: 'a['}", `next.total: "a[" has [ without ]`},
	} {
		_, err := mapping.Parse([]byte(pagesMapping(row.query, row.next)))
		if err == nil || !strings.Contains(err.Error(), "line 14: orders."+row.want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v; want %s", row.query, row.next, err, row.want)
		}
	}
}

package mapping_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/mapping"
)

// A foreign shop is a foreign API: every status is 200, and the JSON holds the meaning. It keeps the orders of all
// times, and lists two at a time.
type foreign struct {
	mu     sync.Mutex
	left   int64
	orders []string // as JSON
	faulty func(n int) string
	lie    int64                                       // added to the units that it reports as left
	more   func(header http.Header, from, to, all int) // tells of further pages
}

const foreignMapping = `
name: foreign
headers: {Authorization: "Key {{token}}"}
set: {method: POST, path: "/set?item={{sku}}&n={{quantity}}"}
read: {path: "/left/{{sku}}", quantity: /data/left}
deduct:
  path: "/take/{{sku}}"
  body: '{"n": {{quantity}}, "ref": "{{request_id}}"}'
  accepted: {status: 200, field: code, equals: 0}
  sold_out: {status: 200, field: code, equals: [1, NONE]}
  busy: {status: 200, field: code, equals: 2}
  order_id: data.id
  remaining: data.after
  instance: data.node
orders:
  path: "/orders/{{sku}}?page={{cursor}}"
  list: items
  next: next
  order_id: id
  quantity: n
  request_id: ref
`

func (f *foreign) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Header.Get("Authorization") != "Key s3cret" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	switch path, _, _ := strings.Cut(r.URL.Path[1:], "/"); path {
	case "set":
		f.left, _ = strconv.ParseInt(r.FormValue("n"), 10, 64)
	case "left":
		fmt.Fprintf(w, `{"data":{"left":"%d"}}`, f.left+f.lie)
	case "orders":
		from, _ := strconv.Atoi(r.FormValue("page"))
		to, next := from+2, strconv.Quote(strconv.Itoa(from+2))
		if to >= len(f.orders) {
			to, next = len(f.orders), "null"
		}
		if f.more != nil {
			f.more(w.Header(), from, to, len(f.orders))
		}
		fmt.Fprintf(w, `{"items":[%s],"next":%s}`, strings.Join(f.orders[from:to], ","), next)
	case "take":
		var in struct {
			N   int64
			Ref string
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.N != 1 || r.URL.Path != "/take/a/b c" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		n := len(f.orders) + 1
		if f.faulty != nil {
			if text := f.faulty(n); text != "" {
				fmt.Fprint(w, text)
				return
			}
		}
		if f.left < 1 {
			fmt.Fprint(w, `{"code":"NONE"}`)
			return
		}
		f.left--
		f.orders = append(f.orders, fmt.Sprintf(`{"id":%d,"n":1,"ref":%q}`, n, in.Ref))
		fmt.Fprintf(w, `{"code":0,"data":{"id":%d,"after":%d,"node":"n1"}}`, n, f.left)
	}
}

func (f *foreign) open(t *testing.T, text string) (*mapping.Target, *mapping.File) {
	t.Helper()
	return reach(t, f, text, 8)
}

// What a reply means is told by its fields. A reply that nobody knows, or that tells what cannot be, may have sold.
func TestMappedReplies(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		reply string
		want  loadtest.Outcome
		read  int64
		says  string
	}{
		{`{"code":0,"data":{"id":7,"after":94,"node":"n1"}}`, loadtest.Accepted, 95, ""},
		{`{"code":1}`, loadtest.SoldOut, 0, ""},
		{`{"code":"NONE"}`, loadtest.SoldOut, 0, ""},
		{`{"code":2}`, loadtest.Busy, 0, ""},
		{`<html>`, loadtest.Unknown, 0, "which the mapping does not know"},
		{`{"code":0,"data":{}}`, loadtest.Unknown, 0, "has nothing at data.id (deduct.order_id)"},
		{`{"code":0,"data":{"id":7}}`, loadtest.Unknown, 0, "has no number at data.after (remaining)"},
		{`{"code":0,"data":{"id":7,"after":950}}`, loadtest.Unknown, 0, "tells of 951 units when only 100 were put in"},
	} {
		f := &foreign{faulty: func(int) string { return row.reply }}
		target, _ := f.open(t, foreignMapping)
		if _, err := target.SetStock(t.Context(), "", "a/b c", 100); err != nil {
			t.Fatal(err)
		}
		got := target.Deduct(t.Context(), loadtest.Request{SKU: "a/b c", Quantity: 1, RequestID: "r"})
		if got.Outcome != row.want || !strings.Contains(got.Error, row.says) ||
			row.read > 0 && (got.Read != row.read || got.Version != 5 || got.Instance != "n1" || got.OrderID != "7") {
			t.Errorf("%s: %+v, want %s", row.reply, got, row.want)
		}
	}
}

// A list that is read in part is no evidence, and the error says what is missing in the mapping.
func TestMappedListInPart(t *testing.T) {
	t.Parallel()
	first := strings.NewReplacer("?page={{cursor}}", "", "  next: next\n", "").Replace(foreignMapping)
	link := func(h http.Header, _, to, all int) {
		h.Add("Link", `</orders?page=0>; title="first, next"; rel="first"`)
		if to < all {
			h.Add("Link", fmt.Sprintf(`</orders?page=0>; rel=prev, </orders?page=%d>; title=x; rel="last next"`, to))
		}
	}
	pages := func(h http.Header, _, _, all int) { h.Set("X-WP-TotalPages", strconv.Itoa((all+1)/2)) }
	total := func(h http.Header, _, _, all int) { h.Set("X-WP-Total", strconv.Itoa(all)) }
	fewer := func(h http.Header, _, _, _ int) { h.Set("X-WP-Total", "1") }
	for _, row := range []struct {
		name, mapping string
		more          func(h http.Header, from, to, all int)
		whole         bool
	}{
		{"a link", first, link, false},
		{"a number of pages", first, pages, false},
		{"a number of orders", first, total, false},
		{"a link, read to its end", foreignMapping, link, true},
		{"a number of pages, read to its end", foreignMapping, pages, true},
		{"a number of orders, read to its end", foreignMapping, total, true},
		{"all orders are fewer than were listed", foreignMapping, fewer, true},
	} {
		f := &foreign{more: row.more, orders: []string{`{"id":1,"n":1}`, `{"id":2,"n":1}`, `{"id":3,"n":1}`}}
		target, _ := f.open(t, row.mapping)
		orders, err := target.Orders(t.Context(), "", "x")
		if row.whole != (err == nil && len(orders) == 3) ||
			err != nil && !strings.Contains(err.Error(), "orders.next") {
			t.Errorf("%s: %d orders, %v", row.name, len(orders), err)
		}
	}
}

func TestMappedSaysWhatIsStrange(t *testing.T) {
	for _, row := range []struct {
		name, old, new string
		lie            int64
		want           string
	}{
		{
			"forbidden", "Key {{token}}", "Key no", 0,
			"answers POST /set?item=x&n=9 with status 403, not [2xx] as the mapping says",
		},
		{
			"another place", "/data/left", "/data/right", 0,
			`the reply to GET /left/x has no number at /data/right (read.quantity): "{\"data\":{\"left\":\"9\"}}"`,
		},
		{"no number", "/data/left", "data", 0, "has no number at data"},
		{"not what was set", "", "", -2, "was asked for a stock of 9 units of x, and then said that there are 7"},
		{
			"cannot be set", `set: {method: POST, path: "/set?item={{sku}}&n={{quantity}}"}`, "", 0,
			"has 0 units of x, not 9: set the stock first",
		},
		{"no list", "list: items", "list: next", 0, "has no list at next"},
		{"no order id", "order_id: id", "order_id: di", 0, "has an order that has nothing at di (orders.order_id)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := &foreign{lie: row.lie, orders: []string{`{"id":"old","n":3}`, `{"id":2,"n":1}`, `{"id":3,"n":1}`}}
			target, _ := f.open(t, strings.Replace(foreignMapping, row.old, row.new, 1))
			_, err := target.SetStock(t.Context(), "", "x", 9)
			if err == nil || !strings.Contains(err.Error(), row.want) || !strings.HasPrefix(err.Error(), target.URL()) {
				t.Errorf("got\n  %v\nwant\n  %s", err, row.want)
			}
		})
	}
}

// A redirect is told as such, and where it leads. After 307 and 308 nothing was done; after 303 something may be.
func TestMappedRedirects(t *testing.T) {
	for _, row := range []struct {
		status  int
		outcome loadtest.Outcome
	}{
		{http.StatusTemporaryRedirect, loadtest.Failed},
		{http.StatusPermanentRedirect, loadtest.Failed},
		{http.StatusSeeOther, loadtest.Unknown},
	} {
		target, _ := reach(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://shop.example/take?ref=7#top")
			w.WriteHeader(row.status)
		}), foreignMapping, 1)
		got := target.Deduct(t.Context(), loadtest.Request{SKU: "a", Quantity: 1, RequestID: "r"})
		want := fmt.Sprintf("status %d redirects to https://shop.example/take, which is not followed", row.status)
		if got.Outcome != row.outcome || got.Location != "https://shop.example/take" || got.Error != want {
			t.Errorf("%d: %+v", row.status, got)
		}
		_, err := target.SetStock(t.Context(), "", "a", 9)
		if err == nil || !strings.Contains(err.Error(),
			"redirects POST /set?item=a&n=9 to https://shop.example/take, which is not followed") {
			t.Errorf("%d: %v", row.status, err)
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/stock/internal/words"
)

// ledgerOf serves the ledger of one SKU in pages of two movements.
func ledgerOf(t *testing.T, counters string, movements ...string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/stock/book":
			fmt.Fprintf(w, `{"sku":"book","guard":"orders",%s}`, counters)
		case "/v1/stock/book/movements":
			var at int
			_, _ = fmt.Sscan(r.URL.Query().Get("cursor"), &at)
			end, next := min(at+2, len(movements)), ""
			if end < len(movements) {
				next = fmt.Sprint(end)
			}
			fmt.Fprintf(w, `{"movements":[%s],"next":%q}`, strings.Join(movements[at:end], ","), next)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"title":"Unknown SKU","detail":"Unknown SKU."}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func moved(number, received, available, reserved, sold int) string {
	return fmt.Sprintf(`{"sku":"book","number":%d,"received":%d,"available":%d,"reserved":%d,"sold":%d}`,
		number, received, available, reserved, sold)
}

func TestAudit(t *testing.T) {
	t.Parallel()
	good := []string{
		moved(1, 10, 10, 0, 0), moved(2, 0, -3, 3, 0), moved(3, 0, 0, -3, 3),
		moved(4, 5, 5, 0, 0), // came while the audit ran
	}
	counters := `"received":10,"available":7,"reserved":0,"sold":3,"version":3`
	out, _, err := run(t.Context(), "audit", "book", "--url", ledgerOf(t, counters, good...))
	const balances = "book: received 10 = available 7 + reserved 0 + sold 3, 3 movements: balances\n"
	if err != nil || out != balances {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = run(t.Context(), "audit", "book", "--json", "--url", ledgerOf(t, counters, good...))
	if err != nil || !strings.Contains(out, `"movements":3,"problems":[]`) {
		t.Errorf("%v\n%s", err, out)
	}
	for name, bad := range map[string][]string{"a gap": {good[0], good[2]}, "lost": good[:2], "empty": nil} {
		out, _, err := run(t.Context(), "audit", "book", "--url", ledgerOf(t, counters, bad...))
		status, ok := errors.AsType[exitError](err)
		if !ok || status.code != exitVerdict || !strings.Contains(out, "DOES NOT BALANCE") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	out, _, err = run(t.Context(), "audit", "book", "--lang", "zh", "--url", ledgerOf(t, counters, good[0], good[2]))
	for _, want := range []string{
		"book：入库 10 = 可卖 7 + 已预留 0 + 已售 3，流水 2 条：账不平\n", "第 1 条流水之后是第 3 条",
		"第 3 条流水之后，入库不等于", "入库 10、可卖 10、已预留 -3、已售 3",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if status, ok := errors.AsType[exitError](err); !ok || words.Of(status.err).ZH != "1 个 SKU 里有 1 个账不平" {
		t.Errorf("%v", err)
	}
	const mended = `{"sku":"book","number":4,"kind":"adjust","ref":"repair-1","available":-3,"reserved":3}`
	counters = `"received":10,"available":7,"reserved":0,"sold":3,"version":4`
	out, _, err = run(t.Context(), "audit", "book", "--url", ledgerOf(t, counters, good[0], good[2], mended))
	if err != nil || !strings.Contains(out, ": balances\n  2 earlier problems were mended by an adjustment") {
		t.Errorf("%v\n%s", err, out)
	}
	for name, args := range map[string][]string{
		"unknown": {"audit", "ghost", "--url", ledgerOf(t, counters, good...)},
		"nobody":  {"audit", "book", "--url", "http://127.0.0.1:1"},
	} {
		_, _, err := run(t.Context(), args...)
		if status, ok := errors.AsType[exitError](err); !ok || status.code != exitTarget {
			t.Errorf("%s: %v", name, err)
		}
	}
}

package report_test

import (
	"bytes"
	"testing"
	"time"

	"example.com/stock/internal/stack/browsertest"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
	"example.com/stock/loadtest/report"
)

// shown counts the pages that show what was injected: a test that shows none proves nothing.
type shown struct {
	t    *testing.T
	show func(field, page string)
	n    int
}

func (s *shown) page(field string, write func(*bytes.Buffer) error) {
	var page bytes.Buffer
	if err := write(&page); err == nil && browsertest.Injected(page.String()) {
		s.n++
		s.show(field, page.String())
	}
}

func (s *shown) atLeast(n int, of string) {
	s.t.Helper()
	if s.n < n {
		s.t.Errorf("%d pages of %s show what was injected, want %d", s.n, of, n)
	}
	s.n = 0
}

// loads calls show with the pages about a run for each string that its history can have, with a script in it. What is
// refused makes no page.
func loads(t *testing.T, show func(field, page string)) {
	t.Helper()
	s := &shown{t: t, show: show}
	for _, field := range browsertest.Fields(loadtest.History{}) {
		h := history(t, "none")
		h.Records, h.Orders = h.Records[:20], h.Orders[:min(20, len(h.Orders))]
		browsertest.Inject(h, field)
		var file bytes.Buffer
		if err := loadtest.WriteHistory(&file, h); err != nil {
			t.Fatal(err)
		}
		read, err := loadtest.ReadHistory(&file)
		if err != nil {
			continue
		}
		for _, runs := range [][]*loadtest.Result{{read.Result()}, {read.Result(), read.Result()}} {
			s.page(field, func(page *bytes.Buffer) error {
				return report.WriteHTML(page, report.Page{Groups: []report.Group{{Runs: runs}}})
			})
		}
	}
	s.atLeast(20, "loads")
}

// visited is a checkout of one customer, who was refused first.
func visited() *checkout.Result {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later := at.Add(time.Millisecond)
	lines := []checkout.Line{{SKU: "a", Quantity: 1}}
	got := &checkout.Thing{OrderID: "o1", Customer: "ann", State: "placed", Lines: lines, CreatedAt: at}
	ask := checkout.Ask{Op: checkout.OpPlace, Key: "k", Customer: "ann", Lines: lines}
	counts := checkout.Counts{SKU: "a", Received: 10, Available: 9, Sold: 1}
	book := checkout.Book{
		Before: checkout.Counts{SKU: "a", Received: 10, Available: 10}, After: counts,
		Movements: []checkout.Movement{{Number: 1, SKU: "a", At: at}, {Number: 2, SKU: "a", At: at}},
		Events:    []checkout.Event{{}},
	}
	book.Events[0].Data.SKU = "a"
	r := &checkout.Result{
		Target: "http://localhost", Run: "run", Command: "stock load", StartedAt: at, Heard: "a stream",
		Plan:  checkout.Plan{Visits: 2},
		Books: []checkout.Book{book},
	}
	r.Evidence = checkout.Evidence{
		Run: "run", Books: r.Books, Orders: []checkout.Thing{*got}, Reservations: []checkout.Thing{*got}, ReadAt: at,
		Records: []checkout.Record{
			{
				Seq: 1, Request: 1, Attempt: 1, Way: checkout.Buy, Ask: ask, SentAt: at, DoneAt: later,
				Outcome: checkout.Refused, Status: 409, Problem: "sold_out", Error: "none", Instance: "app-1",
			},
			{
				Seq: 2, Request: 2, Attempt: 1, Way: checkout.Buy, Ask: ask, SentAt: at, DoneAt: later,
				Outcome: checkout.Done, Status: 200, Instance: "app-1", Got: got,
			},
		},
	}
	return r
}

// judged returns a checkout as it is read from its history.
func judged(r *checkout.Result) (*checkout.Result, error) {
	var file bytes.Buffer
	if err := checkout.WriteHistory(&file, r); err != nil {
		return nil, err
	}
	return checkout.ReadHistory(&file)
}

// checkouts is loads for checkouts: for what their histories can have, and for what is then known of a run.
func checkouts(t *testing.T, show func(field, page string)) {
	t.Helper()
	s := &shown{t: t, show: show}
	if _, err := judged(visited()); err != nil {
		t.Fatal(err)
	}
	page := func(field string, r *checkout.Result) {
		s.page(field, func(out *bytes.Buffer) error { return report.WriteCheckoutHTML(out, r, "", "en") })
	}
	for _, field := range browsertest.Fields(checkout.Evidence{}) {
		r := visited()
		browsertest.Inject(&r.Evidence, field)
		if read, err := judged(r); err == nil {
			page(".Evidence"+field, read)
		}
	}
	for _, field := range browsertest.Fields(checkout.Result{}) {
		r := visited()
		browsertest.Inject(r, field)
		if read, err := judged(r); err == nil {
			page(field, read)
		}
		r, err := judged(visited())
		if err != nil {
			t.Fatal(err)
		}
		browsertest.Inject(r, field)
		page(field, r)
	}
	s.atLeast(10, "checkouts")
}

// Whatever stands in a history is text on its page.
func TestAHistoryIsText(t *testing.T) {
	t.Parallel()
	loads(t, func(field, page string) { browsertest.Inert(t, field, page) })
	checkouts(t, func(field, page string) { browsertest.Inert(t, field, page) })
}

// No script runs on a page, wherever it comes from. All pages have the same head.
func TestThePolicyHolds(t *testing.T) {
	browsertest.PolicyHolds(t, browsertest.Open(t), page(t, recorded(t, "none")), `document.readyState === "complete"`)
}

package loadtest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// The figures of a run are from its first request to its last reply, in whatever order they were recorded.
func TestFiguresDoNotDependOnTheOrder(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }
	records := []Record{
		{
			Quantity: 3, PlannedAt: at(100), SentAt: at(150), DoneAt: at(500),
			Reply: Reply{Outcome: Accepted, Instance: "b"},
		},
		{Quantity: 1, PlannedAt: at(0), SentAt: at(30), DoneAt: at(2000), Reply: Reply{Outcome: Busy, Instance: "a"}},
		{
			Quantity: 5, PlannedAt: at(10), SentAt: at(20), DoneAt: at(400),
			Reply: Reply{Outcome: Accepted, Instance: "a"},
		},
		{Quantity: 1, PlannedAt: at(40), SentAt: at(50), DoneAt: at(60), Reply: Reply{Outcome: Busy, Instance: "c"}},
	}
	for range 4 {
		l := Measure(records)
		if l.Seconds != 1.98 || fmt.Sprintf("%.3f", l.Sold) != "16.667" || l.Late != 2 || l.LongestLateMS != 50 {
			t.Errorf("seconds %v, sold %v, late %d, %v", l.Seconds, l.Sold, l.Late, l.LongestLateMS)
		}
		if l.All.Count != 4 || l.Service.Count != 4 || l.ByOutcome[Busy].Count != 2 || l.Accepted().Count != 2 {
			t.Errorf("counts %d, %d, %d, %d", l.All.Count, l.Service.Count, l.ByOutcome[Busy].Count, l.Accepted().Count)
		}
		// Latency counts from the time at which a request was due, and not from its sending.
		if all, service := int(l.All.Max), int(l.Service.Max); all != 2000 || service != 1970 {
			t.Errorf("the longest latency is %d ms, the longest service %d ms", all, service)
		}
		if want := []Share{
			{Instance: "a", Replies: 2, Accepted: 1},
			{Instance: "b", Replies: 1, Accepted: 1},
			{Instance: "c", Replies: 1},
		}; !slices.Equal(l.Instances, want) {
			t.Errorf("instances %v", l.Instances)
		}
		records = append(records[1:], records[0])
	}
	for i := range records {
		records[i].PlannedAt = time.Time{}
	}
	if l := Measure(records); l.Service != nil || l.Late != 0 {
		t.Errorf("a closed loop: %+v", l)
	}
}

// A worker that got nothing counts. The workers of an open loop are not customers.
func TestHowEvenlyWorkersAreServed(t *testing.T) {
	records := []Record{
		{Worker: 1, Quantity: 2, Reply: Reply{Receipt: &Receipt{WaitedMS: 7}}},
		{Worker: 2, Quantity: 9},
		{Worker: 3, Quantity: 2, Reply: Reply{Receipt: &Receipt{WaitedMS: 5}}},
	}
	for rate, want := range map[Rate]float64{{}: 16.0 / 24, {1, 1}: 0} {
		f := fairnessOf(&Result{Plan: Plan{Rate: rate}, Records: records})
		if f.Jain != want || f.LongestWaitMS != 7 {
			t.Errorf("rate %v: %+v, want %v and 7", rate, f, want)
		}
	}
	if f := fairnessOf(&Result{Records: records[1:2]}); f != (Fairness{}) {
		t.Errorf("nothing was sold: %+v", f)
	}
}

// A warning says when the load was not as planned: more than one in a hundred late, or any dropped.
func TestWhenALoadWasNotAsPlanned(t *testing.T) {
	for _, row := range []struct {
		open             bool
		late, dropped, n int
		settled          float64
		want             int
	}{
		{true, 1, 0, 100, 0, 0},
		{true, 2, 0, 100, 0, 1},
		{true, 1, 1, 99, 0, 1},
		{true, 2, 1, 99, 0, 2},
		{false, 2, 1, 99, 0, 0},
		{false, 0, 0, 1, 5, 1},
		{true, 0, 0, 0, 0, 0},
	} {
		r := &Result{Dropped: row.dropped, Records: make([]Record, row.n), SettledMS: row.settled}
		r.Latency.Late = row.late
		if row.open {
			r.Plan.Rate = Rate{1, 1}
		}
		if got := r.warnings(); len(got) != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

// A run that never asked for more than there was could not oversell, and a pass says so.
func TestTheStockNeverRanOut(t *testing.T) {
	for _, row := range []struct {
		verdict Verdict
		want    bool
	}{
		{Verdict{Finding: Holds, InitialUnits: 9, RemainingUnits: 1}, true},
		{Verdict{Finding: Holds, InitialUnits: 9, RemainingUnits: 1, SoldOut: 1}, false}, // it asked for more units
		{Verdict{Finding: Holds, InitialUnits: 9}, false},
		{Verdict{Finding: Broken, InitialUnits: 9, RemainingUnits: 1}, false},
		{Verdict{Finding: Undecided, InitialUnits: 9, RemainingUnits: 1}, false},
	} {
		r := &Result{Verdict: row.verdict}
		told := slices.Contains(r.warnings(), say("warning.never-ran-out", "left", int64(1), "initial", int64(9)))
		if told != row.want {
			t.Errorf("%+v: %v", row.verdict, r.warnings())
		}
	}
}

// While a run is under way its figures are of the replies so far.
func TestProgressSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Plan{SKU: "pen", SKUs: 2, Stock: 3, Requests: 8, Duration: 0}
		g := &Generator[Record]{Plan: p, Clock: StartClock()}
		g.dropped.Store(1)
		counted := newTally(p)
		now := time.Now()
		records := []Record{
			{
				SKU: "pen-1", Quantity: 4, Reply: Reply{Outcome: Accepted}, PlannedAt: now, SentAt: now.Add(Late + 1),
				DoneAt: now.Add(2 * time.Second),
			},
			{
				SKU: "pen-2", Quantity: 1, Reply: Reply{Outcome: Accepted}, PlannedAt: now, SentAt: now.Add(Late),
				DoneAt: now.Add(time.Second),
			},
			{SKU: "pen-2", Quantity: 9, Reply: Reply{Outcome: Busy}, SentAt: now, DoneAt: now.Add(4 * time.Second)},
		}
		for i := range records {
			counted.add(&records[i])
		}
		time.Sleep(2 * time.Second)
		got := counted.progress(t.Context(), g)
		if got.Done != 3 || got.Late != 1 || got.Dropped != 1 || got.Oversold != 1 || got.Total != 8 ||
			got.Rate != 1.5 ||
			got.SoldRate != 2.5 || got.Outcomes[Accepted] != 2 || got.Interrupted || got.Left != 2*time.Second {
			t.Errorf("%+v", got)
		}
		p.Duration = 5 * time.Second
		over, end := context.WithCancel(t.Context())
		end()
		if got := counted.progress(over, g); got.Left != 3*time.Second || !got.Interrupted {
			t.Errorf("%v are left of five seconds", got.Left)
		}
		time.Sleep(5 * time.Second)
		got = counted.progress(over, g)
		if got.Left != 0 {
			t.Errorf("%v are left after the end", got.Left)
		}
		// A run that ends with refusals has the same figure in its last line as in the table.
		if want := Measure(records).Sold; got.SoldRate != want {
			t.Errorf("%v sold/s in the last line, %v in the table", got.SoldRate, want)
		}
	})
}

// A warm-up has the load of the run's start, with SKUs of its own. Connections are opened for the workers, or for the
// largest rate.
func TestTheLoadOfAWarmUp(t *testing.T) {
	for _, row := range []struct{ run, warm Rate }{
		{Rate{}, Rate{}},
		{Rate{100, 100}, Rate{100, 100}},
		{Rate{100, 500}, Rate{100, 100}},
		{Rate{0, 500}, Rate{500, 500}},
	} {
		p := Plan{SKU: "pen", Stock: 7, Requests: 9, WarmUp: time.Second, Rate: row.run}
		w := p.warmUp()
		if w.Rate != row.warm || w.SKU != "pen-warm" || w.Stock != warmStock || w.Requests != 0 ||
			w.Duration != time.Second || p.SKU != "pen" {
			t.Errorf("%v: %+v", row.run, w)
		}
	}
	for _, row := range []struct {
		p    Plan
		want int
	}{
		{Plan{Concurrency: 3}, 3},
		{Plan{Rate: Rate{100, 1001}, MaxInFlight: 1000}, 21},
		{Plan{Rate: Rate{1001, 100}, MaxInFlight: 1000}, 21},
		{Plan{Rate: Rate{1, 1}, MaxInFlight: 1000}, 8},
		{Plan{Rate: Rate{1001, 100}, MaxInFlight: 5}, 5},
	} {
		if got := row.p.warmConnections(); got != row.want {
			t.Errorf("%+v: %d connections, want %d", row.p, got, row.want)
		}
	}
}

// So many sorts of failures are named, and the rest are counted.
func TestSortsOfFailures(t *testing.T) {
	var records []Record
	for _, name := range []string{"a", "b", "a", "c"} {
		records = append(records, Record{Reply: Reply{Outcome: Failed, Problem: name}})
	}
	records = append(records, Record{Reply: Reply{Outcome: Busy, Problem: "d"}})
	for most, want := range map[int]int{1: 2, 2: 3, 3: 3, 9: 3} {
		lines := FailureSorts(records, most)
		if len(lines) != want || lines[0].EN[:4] != "2 x " {
			t.Errorf("at most %d: %v", most, lines)
		}
		if rest := lines[len(lines)-1] == say("more-failures", "n", 3-most); rest != (most < 3) {
			t.Errorf("at most %d: the last line is %s", most, lines[len(lines)-1])
		}
	}
}

// What a reply means for the sale. It is of the instance that the header names, and not of the path in a problem.
func TestWhatAReplyMeans(t *testing.T) {
	for _, row := range []struct {
		status  int
		problem string // "": plain text
		sent    string // the value of "sent" from a proxy, which knows no instance
		want    Outcome
	}{
		{503, "lock_busy", "", Busy},
		{503, "lock_timeout", "", Busy},
		{503, "overloaded", "", Busy},
		{503, "no_capacity", "", Busy},
		{409, "sold_out", "", SoldOut},
		{503, "outcome_unknown", "", Unknown},
		{500, "internal", "", Unknown}, // a crash, possibly after the sale
		{503, "lock_lost", "", Failed},
		{503, "stale_fence", "", Failed},
		{503, "backend_down", "", Failed},
		{409, "strategy_mismatch", "", Failed},
		{400, "invalid", "", Failed},
		{502, "bad_gateway", "true", Unknown},
		{502, "bad_gateway", "false", Failed},
		{502, "bad_gateway", "", Unknown},
		{504, "gateway_timeout", "true", Unknown},
		{502, "", "", Unknown},
		{504, "", "", Unknown},
		{500, "", "", Unknown},
		{503, "", "", Failed},
		{404, "", "", Failed},
		{301, "", "", Failed},
		{200, "", "", Unknown},
	} {
		ans, instance := &Answer{Status: row.status, Header: http.Header{}}, ""
		if row.problem != "" {
			ans.Header.Set("Content-Type", "application/problem+json")
			ans.Body = fmt.Appendf(nil, `{"type":"/problems/%s","detail":"because","instance":"/deduct","sent":%s}`,
				row.problem, cmp.Or(row.sent, "null"))
		}
		if row.sent == "" {
			instance = "app-2"
			ans.Header.Set("X-Instance", instance)
		}
		got := classify(Request{SKU: "x", Quantity: 1}, ans)
		if got.Outcome != row.want || got.Problem != row.problem || got.Status != row.status ||
			got.Instance != instance || got.Error == "" {
			t.Errorf("%d %s %s: %+v, want %s from %q", row.status, row.problem, row.sent, got, row.want, instance)
		}
	}
	// Where a redirect leads is told without what differs between requests.
	to := http.Header{"Location": {"https://shop.example/buy?sku=x"}}
	moved := classify(Request{}, &Answer{Status: 307, Header: to})
	if moved.Outcome != Failed || moved.Location != "https://shop.example/buy" ||
		moved.Error != "status 307 redirects to https://shop.example/buy, which is not followed" {
		t.Errorf("%+v", moved)
	}
}

// A reply to a repeated request says so in a header.
func TestAReplayIsToldByItsHeader(t *testing.T) {
	const body = `{"order_id":"o","sku":"pen","quantity":1,"read":3,"remaining":2,"version":1,"epoch":1}`
	for value, want := range map[string]bool{"true": true, "false": false, "": false} {
		header := http.Header{"Idempotent-Replayed": {value}, "Content-Type": {"application/json"}}
		ans := &Answer{Status: 200, Header: header, Body: []byte(body)}
		got := classify(Request{SKU: "pen", Quantity: 1}, ans)
		if got.Replayed != want || got.Outcome != Accepted {
			t.Errorf("%q: %+v", value, got)
		}
	}
}

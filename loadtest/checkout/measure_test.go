package checkout_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"example.com/stock/loadtest/checkout"
)

// What happened is counted: attempts, and of the requests the last attempt, or the one that succeeded.
func TestMeasureCounts(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(r checkout.Record, request, sent, took int) checkout.Record {
		r.Request, r.Visit, r.Way = request, request, checkout.Ways()[0]
		r.SentAt = began.Add(time.Duration(sent) * time.Second)
		r.DoneAt = r.SentAt.Add(time.Duration(took) * time.Second)
		return r
	}
	place := checkout.Ask{Op: checkout.OpPlace}
	records := []checkout.Record{
		at(checkout.Record{Ask: place, Outcome: checkout.Done, Status: 201}, 1, 2, 1),
		at(checkout.Record{Ask: place, Outcome: checkout.Refused, Status: 409, Problem: "sold_out"}, 2, 1, 1),
		at(checkout.Record{Ask: place, Outcome: checkout.Refused, Status: 409, Problem: "in_progress"}, 3, 3, 1),
		at(checkout.Record{
			Ask: place, Outcome: checkout.Done, Status: 200, Settling: true, Replayed: true,
		}, 3, 5, 4), // ends last
		at(checkout.Record{Ask: place, Outcome: checkout.Unknown, Cut: true, Status: 201}, 4, 6, 1),
		at(checkout.Record{Ask: checkout.Ask{Op: checkout.OpReserve}, Outcome: checkout.Done, Status: 201}, 5, 7, 1),
	}
	// A visit is whole if each of its requests was done, and refused if one was. One with a request that had no end is
	// neither.
	refused, open := records[1], records[4]
	refused.Request, refused.Visit, open.Request, open.Visit = 6, 1, 7, 5
	visits := checkout.Measure(&checkout.Result{
		Evidence: checkout.Evidence{Records: append(slices.Clone(records), refused, open)},
	}).Ways[0]
	if visits.Visits != 5 || visits.Whole != 1 || visits.Refused != 2 {
		t.Errorf("with two requests more: %+v", visits)
	}
	f := checkout.Measure(&checkout.Result{Evidence: checkout.Evidence{Records: records}})
	if f.Attempts != 6 || f.Requests != 5 || f.Orders != 2 || f.Reservations != 1 || f.Cut != 1 || f.Replayed != 1 ||
		f.Revised != 1 || f.Seconds != 8 {
		t.Errorf("%+v", f)
	}
	if want := map[string]int{"sold_out": 1, "in_progress": 1}; !maps.Equal(f.Problems, want) {
		t.Errorf("problems %v, want %v", f.Problems, want)
	}
	outcomes := map[checkout.Outcome]int{checkout.Done: 3, checkout.Refused: 2, checkout.Unknown: 1}
	if !maps.Equal(f.Outcomes, outcomes) {
		t.Errorf("outcomes %v, want %v", f.Outcomes, outcomes)
	}
	if w := f.Ways[0]; w.Visits != 5 || w.Whole != 3 || w.Refused != 1 {
		t.Errorf("the visits of a way: %+v", w)
	}
	if len(f.Latency) != 2 || f.Latency[0].Count+f.Latency[1].Count != 5 {
		t.Errorf("latencies without the reply that was cut: %+v", f.Latency)
	}
}

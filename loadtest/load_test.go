package loadtest_test

import (
	"context"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/loadtest"
)

// Both loops send what they plan, when they plan it, by a clock that does not wait.
func TestLoads(t *testing.T) {
	even := func(rate float64) loadtest.Plan {
		return loadtest.Plan{Rate: loadtest.Rate{From: rate, To: rate}, Arrivals: loadtest.Even, Stock: 10_000}
	}
	with := func(p loadtest.Plan, change func(*loadtest.Plan)) loadtest.Plan {
		change(&p)
		return p
	}
	closed := loadtest.Plan{Stock: 10_000, Concurrency: 4}
	for _, row := range []struct {
		name          string
		plan          loadtest.Plan
		think         time.Duration
		sent, dropped int
	}{
		{"so many", with(closed, func(p *loadtest.Plan) { p.Requests = 60 }), time.Millisecond, 60, 0},
		{"for so long", with(closed, func(p *loadtest.Plan) {
			p.Duration = time.Second
		}), 10 * time.Millisecond, 400, 0},
		{"one at least", with(closed, func(p *loadtest.Plan) {
			p.Duration, p.Concurrency = time.Nanosecond, 1
		}), time.Second, 1, 0},
		{"5,000 a second", with(even(5000), func(p *loadtest.Plan) {
			p.Duration = time.Second
		}), time.Millisecond, 5000, 0},
		{"the service hangs, and requests go on leaving until too many are in flight", with(even(400),
			func(p *loadtest.Plan) { p.Requests, p.MaxInFlight = 400, 20 }), time.Hour, 20, 380},
		{"the slot of a request that has its reply is free", with(even(20), func(p *loadtest.Plan) {
			p.Requests, p.MaxInFlight = 5, 1
		}), time.Millisecond, 5, 0},
		{"warm-up, closed", with(closed, func(p *loadtest.Plan) {
			p.Requests, p.WarmUp = 10, time.Second
		}), 10 * time.Millisecond, 10, 0},
		{"warm-up, open", with(even(200), func(p *loadtest.Plan) {
			p.Requests, p.WarmUp = 10, time.Second
		}), 10 * time.Millisecond, 10, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				row.plan.Strategy, row.plan.Timeout, row.plan.Recheck = "seller", 2*time.Hour, once()
				var last loadtest.Progress
				warm := 0
				r, err := loadtest.Run(t.Context(), &seller{think: row.think}, row.plan, func(p loadtest.Progress) {
					if last = p; p.WarmUp {
						warm++
					}
				})
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Records) != row.sent || r.Dropped != row.dropped || r.Interrupted ||
					r.Verdict.Finding != holds || r.Latency.Late > 0 || last.Dropped != row.dropped || !last.Last {
					t.Errorf("%d sent, %d dropped, want %d, %d; interrupted %v, %d late, %s; %+v", len(r.Records),
						r.Dropped,
						row.sent, row.dropped, r.Interrupted, r.Latency.Late, r.Verdict.Finding, last)
				}
				for _, record := range r.Records {
					if record.PlannedAt.IsZero() == row.plan.Open() || record.SentAt.Before(record.PlannedAt) {
						t.Fatalf("%+v", record)
					}
				}
				// The sales of a warm-up are neither judged nor measured.
				wanted := row.plan.WarmUp > 0
				if (len(r.Warm) > 0) != wanted || (warm > 0) != wanted || wanted &&
					(r.Records[0].Seq <= r.Warm[len(r.Warm)-1].Seq || r.Warm[0].SKU != "load-seller-warm" ||
						!r.Warm[0].Warm) {
					t.Errorf("%d requests of the warm-up, %d reports of it", len(r.Warm), warm)
				}
			})
		})
	}
}

// Requests that hang are cut off when the run was interrupted Grace ago. Those that were due were never sent.
func TestCancelCutsOffAfterGrace(t *testing.T) {
	for name, plan := range map[string]loadtest.Plan{
		"closed":       {Requests: 30, Concurrency: 3},
		"all are sent": {Requests: 3, Concurrency: 3},
		"open":         {Requests: 30, Rate: loadtest.Rate{From: 3, To: 3}, Arrivals: loadtest.Even},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				plan.Strategy, plan.Stock, plan.Recheck = "seller", 9, once()
				r, err := loadtest.Run(ctx, hanging{&seller{}}, plan, nil)
				if err != nil {
					t.Fatal(err)
				}
				took := r.Records[0].DoneAt.Sub(r.StartedAt)
				if v := r.Verdict; !r.Interrupted || v.Unknown != 3 || v.Sent != 3 || v.Finding != undecided ||
					took != time.Second+loadtest.Grace {
					t.Errorf("interrupted %v after %v, sent %d, unknown %d, %s",
						r.Interrupted, took, v.Sent, v.Unknown, v.Finding)
				}
			})
		})
	}
}

// A hanging seller answers only when it is given up.
type hanging struct{ *seller }

func (hanging) Deduct(ctx context.Context, _ loadtest.Request) loadtest.Reply {
	<-ctx.Done()
	return loadtest.Reply{Outcome: loadtest.Unknown, Error: context.Cause(ctx).Error()}
}

// The second look comes a second after the first, unless the plan says when. What was proved needs none.
func TestRecheck(t *testing.T) {
	for _, row := range []struct {
		recheck *time.Duration
		s       *seller
		want    int // looks
	}{
		{nil, &seller{}, 2},
		{once(), &seller{}, 1},
		{nil, &seller{deduct: func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			s.book(g, r)
			return s.book(g, r)
		}}, 1},
	} {
		var looks []time.Time
		row.s.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
			looks = append(looks, time.Now())
			return told
		}
		synctest.Test(t, func(t *testing.T) {
			r, err := loadtest.Run(t.Context(), row.s, loadtest.Plan{
				Strategy: "seller", Stock: 9, Requests: 3, Recheck: row.recheck,
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if len(looks) != row.want || row.want == 2 && looks[1].Sub(looks[0]) < loadtest.Recheck {
				t.Errorf("looked at %v, want %d looks; %s", looks, row.want, r.Verdict.Finding)
			}
		})
	}
}

// No request id tells that a load test sent it: each is a UUID, and they have no beginning in common.
func TestRequestIDsHaveNoMark(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	begin := make(map[string]bool)
	for _, r := range put(t, &seller{}, loadtest.Plan{}).Records {
		if !form.MatchString(r.RequestID) {
			t.Errorf("%q", r.RequestID)
		}
		begin[r.RequestID[:8]] = true
	}
	if len(begin) != 60 {
		t.Errorf("60 ids have %d beginnings", len(begin))
	}
}

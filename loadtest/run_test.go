package loadtest_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/loadtest"
)

// A crowd answers when the requests of all workers are there.
type crowd struct {
	*seller
	arrived sync.WaitGroup
	warmed  int
}

func (c *crowd) Deduct(ctx context.Context, r loadtest.Request) loadtest.Reply {
	c.arrived.Done()
	c.arrived.Wait()
	return c.seller.Deduct(ctx, r)
}

func (c *crowd) Warm(_ context.Context, n int) { c.warmed = n }

// The workers of a closed loop begin together, each with a connection. A generator that started a worker after the
// reply to another would never get that far.
func TestWorkersBeginTogether(t *testing.T) {
	const workers = 40
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{seller: &seller{}}
		c.arrived.Add(workers)
		r, err := loadtest.Run(t.Context(), c, loadtest.Plan{
			Recheck: once(), Strategy: "seller", Stock: 100, Requests: workers, Concurrency: workers,
		}, nil)
		if err != nil || r.Verdict.Accepted != workers || c.warmed != workers {
			t.Errorf("%d of %d accepted, over %d warm connections: %v", r.Verdict.Accepted, workers, c.warmed, err)
		}
		for i, record := range r.Records {
			if record.Seq != i+1 {
				t.Fatalf("record %d: %+v", i, record)
			}
		}
	})
}

// Ctrl-C ends both loops early. Requests under way may end, and the finished part is judged.
func TestCancelKeepsWhatWasDone(t *testing.T) {
	for name, plan := range map[string]loadtest.Plan{
		"closed": {Requests: 1_000_000, Concurrency: 4},
		"open":   {Rate: loadtest.Rate{From: 500, To: 500}, Duration: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s := &seller{deduct: func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
					if s.n == 50 {
						cancel()
					}
					return s.sell(g, r)
				}}
				var file bytes.Buffer
				var last loadtest.Progress
				plan.Recheck, plan.Strategy, plan.Stock, plan.History = once(), "seller", 1_000_000, &file
				r, err := loadtest.Run(ctx, s, plan, func(p loadtest.Progress) { last = p })
				if err != nil {
					t.Fatal(err)
				}
				if n := len(r.Records); !r.Interrupted || n < 50 || n > 100 {
					t.Errorf("interrupted %v after %d records, want true after a few more than 50", r.Interrupted, n)
				}
				if r.Verdict.Finding != holds || r.Verdict.Unknown != 0 {
					t.Errorf("%s, %d unknown: %v", r.Verdict.Finding, r.Verdict.Unknown, r.Verdict.Reasons)
				}
				if !last.Last || last.Done != len(r.Records) || last.Total != plan.Requests {
					t.Errorf("last progress %+v", last)
				}
				h, err := loadtest.ReadHistory(&file)
				if err != nil || len(h.Records) != len(r.Records) || h.End == nil || !h.End.Interrupted {
					t.Errorf("history: %v, %+v", err, h)
				}
			})
		})
	}
}

// An offering is a seller with another catalogue.
type offering struct {
	*seller
	strategy loadtest.Strategy
}

func (o offering) Strategies(context.Context) ([]loadtest.Strategy, error) {
	return []loadtest.Strategy{o.strategy}, nil
}

func TestRunRefuses(t *testing.T) {
	has := loadtest.Strategy{Name: "right", Available: true, Stores: []string{"redis"}}
	down, half := has, has
	down.Available, half.DownStores = false, map[string]string{"redis": "it does not answer"}
	for name, row := range map[string]struct {
		strategy loadtest.Strategy
		plan     loadtest.Plan
		field    string // "": the target refuses
	}{
		"no strategy":          {has, loadtest.Plan{Requests: 1}, "strategy"},
		"unknown strategy":     {has, loadtest.Plan{Strategy: "zk", Requests: 1}, "strategy"},
		"unavailable strategy": {down, loadtest.Plan{Strategy: "right", Requests: 1}, ""},
		"no requests":          {has, loadtest.Plan{Strategy: "right"}, "requests"},
		"store of another":     {has, loadtest.Plan{Strategy: "right", Requests: 1, Store: "mysql"}, "store"},
		"store that is down":   {half, loadtest.Plan{Strategy: "right", Requests: 1, Store: "redis"}, ""},
	} {
		r, err := loadtest.Run(t.Context(), offering{&seller{}, row.strategy}, row.plan, nil)
		plan, refused := errors.AsType[*loadtest.PlanError](err)
		if r != nil || err == nil || refused != (row.field != "") || refused && plan.Field != row.field {
			t.Errorf("%s: %v, want an error about %q", name, err, row.field)
		}
	}
}

type full struct{}

var errFull = errors.New("disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestRunJudgesThoughTheHistoryFails(t *testing.T) {
	r, err := loadtest.Run(t.Context(), &seller{},
		loadtest.Plan{Recheck: once(), Strategy: "seller", Stock: 5, Requests: 2, History: full{}}, nil)
	if !errors.Is(err, errFull) || r == nil || r.Verdict.Finding != loadtest.Holds {
		t.Errorf("got %v, %+v", err, r)
	}
}

// A settling seller has orders of which it decides only when it is asked.
type settling struct {
	*seller
	mu      sync.Mutex
	settled []string
}

func (s *settling) Settle(_ context.Context, _, _, orderID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settled = append(s.settled, orderID)
	return nil
}

// Orders that the service reports as unknown are decided before the orders are read. So no order can come into being
// later and spoil the evidence.
func TestUnknownIsSettledBeforeOrdersAreRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &settling{seller: &seller{}}
		s.deduct = func(s *seller, g *good, r loadtest.Request) loadtest.Reply {
			if s.n <= 3 {
				return loadtest.Reply{Outcome: loadtest.Unknown, Problem: "outcome_unknown", OrderID: "lost"}
			}
			return s.sell(g, r)
		}
		s.orders = func(_ *seller, _ *good, told []loadtest.Order) []loadtest.Order {
			if len(s.settled) != 3 {
				t.Errorf("orders are read when these were settled: %v", s.settled)
			}
			return told
		}
		r, err := loadtest.Run(t.Context(), s, loadtest.Plan{
			Recheck: once(), Strategy: "seller", Stock: 9, Requests: 10, Concurrency: 2,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if v := r.Verdict; v.Unknown != 3 || v.Accepted != 7 {
			t.Errorf("unknown %d, accepted %d; want 3 and 7", v.Unknown, v.Accepted)
		}
	})
}

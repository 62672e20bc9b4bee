package loadtest_test

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// A run sets the stock, sells, reads the orders page by page, and has a record of each request in order.
func TestRun(t *testing.T) {
	s := &shop{page: 7}
	r, err := loadtest.Run(t.Context(), client(t, s.open(t, nil), "", 20),
		loadtest.Plan{Recheck: once(), Strategy: "right", Stock: 100, Requests: 120, Concurrency: 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Verdict; v.Finding != holds || !v.Kept || v.Sent != 120 || v.Accepted != 100 || v.SoldOut != 20 ||
		v.RemainingUnits != 0 || len(r.Records) != 120 || r.Latency.All.Count != 120 {
		t.Errorf("%+v, %d records", v, len(r.Records))
	}
	for i, record := range r.Records {
		if record.Seq != i+1 || record.Instance != "app-1" || record.Store != "redis" {
			t.Fatalf("record %d: %+v", i, record)
		}
	}
}

func TestBarrierReleasesAllTogether(t *testing.T) {
	t.Parallel()
	const workers = 40
	var arrived atomic.Int64
	all := make(chan struct{})
	s := new(shop)
	// The server answers when the requests of all workers are there. A generator that starts a worker after the reply
	// to another never gets that far.
	url := s.open(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				if arrived.Add(1) == workers {
					close(all)
				}
				select {
				case <-all:
				case <-r.Context().Done():
				}
			}
			next.ServeHTTP(w, r)
		})
	})
	r, err := loadtest.Run(
		t.Context(),
		client(t, url, "", workers),
		loadtest.Plan{
			Recheck:     once(),
			Strategy:    "right",
			Stock:       100,
			Requests:    workers,
			Concurrency: workers,
			Timeout:     20 * time.Second,
		},
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict.Accepted != workers {
		t.Errorf("%d of %d accepted", r.Verdict.Accepted, workers)
	}
	if spread := r.Records[workers-1].SentAt.Sub(r.Records[0].SentAt); spread >= r.Records[0].Latency() {
		t.Errorf("the last was sent %v after the first, whose reply took %v", spread, r.Records[0].Latency())
	}
}

func TestWarmConnectionsAreUsed(t *testing.T) {
	const workers = 8
	conns := make(map[string]bool)
	s := new(shop)
	lock := make(chan struct{}, 1)
	url := s.open(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			lock <- struct{}{}
			if r.URL.Path == "/livez" {
				conns[r.RemoteAddr] = true
			} else if r.Method == http.MethodPost && !conns[r.RemoteAddr] {
				t.Errorf("request on the new connection %s", r.RemoteAddr)
			}
			<-lock
			next.ServeHTTP(w, r)
		})
	})
	_, err := loadtest.Run(t.Context(), client(t, url, "", workers),
		loadtest.Plan{Recheck: once(), Strategy: "right", Stock: 9, Requests: 50, Concurrency: workers}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// One of them may be the connection of the catalogue.
	if len(conns) < workers {
		t.Errorf("%d connections were opened for %d workers", len(conns), workers)
	}
}

// Ctrl-C ends both loops early. Requests under way may end, and the finished part is judged.
func TestCancelKeepsWhatWasDone(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]loadtest.Plan{
		"closed": {Requests: 1_000_000, Concurrency: 4},
		"open":   {Rate: loadtest.Rate{From: 500, To: 500}, Duration: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			url := new(shop).open(t, func(next http.Handler) http.Handler {
				var posts atomic.Int64
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					next.ServeHTTP(w, r)
					if r.Method == http.MethodPost && posts.Add(1) == 50 {
						cancel()
					}
				})
			})
			var file bytes.Buffer
			var last loadtest.Progress
			plan.Recheck, plan.Strategy, plan.Stock, plan.History = once(), "right", 1_000_000, &file
			r, err := loadtest.Run(ctx, client(t, url, "", 4), plan, func(p loadtest.Progress) { last = p })
			if err != nil {
				t.Fatal(err)
			}
			if n := len(r.Records); !r.Interrupted || n < 50 || n > 2000 {
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
	}
}

func TestRunRefuses(t *testing.T) {
	for name, row := range map[string]struct {
		shop  *shop
		plan  loadtest.Plan
		field string // "": the target refuses
	}{
		"no strategy":          {&shop{}, loadtest.Plan{Requests: 1}, "strategy"},
		"unknown strategy":     {&shop{}, loadtest.Plan{Strategy: "zk", Requests: 1}, "strategy"},
		"unavailable strategy": {&shop{down: "ZooKeeper is down"}, loadtest.Plan{Strategy: "right", Requests: 1}, ""},
		"no requests":          {&shop{}, loadtest.Plan{Strategy: "right"}, "requests"},
		"store of another":     {&shop{}, loadtest.Plan{Strategy: "right", Requests: 1, Store: "mysql"}, "store"},
		"wrong token":          {&shop{token: "s3cret"}, loadtest.Plan{Strategy: "right", Requests: 1}, ""},
	} {
		r, err := loadtest.Run(t.Context(), client(t, row.shop.open(t, nil), "guess", 1), row.plan, nil)
		plan, refused := errors.AsType[*loadtest.PlanError](err)
		if r != nil || err == nil || refused != (row.field != "") || refused && plan.Field != row.field {
			t.Errorf("%s: %v, want an error about %q", name, err, row.field)
		}
	}
	r, err := loadtest.Run(t.Context(), client(t, (&shop{token: "s3cret"}).open(t, nil), "s3cret", 1),
		loadtest.Plan{Recheck: once(), Strategy: "right", Stock: 5, Requests: 2, Quantity: 2}, nil)
	if err != nil || r.Verdict.AcceptedUnits != 4 || r.Verdict.RemainingUnits != 1 {
		t.Fatalf("with the right token: %v, %+v", err, r)
	}
}

type full struct{}

var errFull = errors.New("disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestRunJudgesThoughTheHistoryFails(t *testing.T) {
	r, err := loadtest.Run(t.Context(), client(t, new(shop).open(t, nil), "", 1),
		loadtest.Plan{Recheck: once(), Strategy: "right", Stock: 5, Requests: 2, History: full{}}, nil)
	if !errors.Is(err, errFull) || r == nil || r.Verdict.Finding != loadtest.Holds {
		t.Errorf("got %v, %+v", err, r)
	}
}

package loadtest_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/loadtest"
)

// A mall has a shop for each SKU.
type mall struct {
	mu    sync.Mutex
	shops map[string]http.Handler
}

func (m *mall) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sku := r.URL.Query().Get("sku")
	if rest, ok := strings.CutPrefix(r.URL.Path, "/v1/stock/"); ok {
		sku, _, _ = strings.Cut(rest, "/")
	}
	m.mu.Lock()
	if m.shops == nil {
		m.shops = make(map[string]http.Handler)
	}
	if m.shops[sku] == nil {
		m.shops[sku] = new(shop).handler()
	}
	handler := m.shops[sku]
	m.mu.Unlock()
	handler.ServeHTTP(w, r)
}

// Each SKU is judged by itself, and the history gives the same verdict as the run.
func TestSeveralSKUs(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		strategy string
		finding  loadtest.Finding
	}{{"right", loadtest.Holds}, {"liar", loadtest.Broken}} {
		t.Run(row.strategy, func(t *testing.T) {
			url := serve(t, new(mall), nil)
			var file bytes.Buffer
			r, err := loadtest.Run(t.Context(), client(t, url, "", 20), loadtest.Plan{
				Recheck:     once(),
				Strategy:    row.strategy,
				SKU:         "pen",
				SKUs:        5,
				Skew:        "hot:0.6",
				Stock:       60,
				Quantities:  []int64{1, 2, 3},
				Requests:    200,
				Concurrency: 20,
				Seed:        5,
				History:     &file,
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict.Finding != row.finding || r.Verdict.InitialUnits != 300 || len(r.Accounts) != 5 {
				t.Errorf("%s %v; %d units at first in %d accounts", r.Verdict.Finding, r.Verdict.Reasons,
					r.Verdict.InitialUnits, len(r.Accounts))
			}
			asked, units := make(map[string]int), make(map[int64]int)
			for _, record := range r.Records {
				asked[record.SKU]++
				units[record.Quantity]++
			}
			if len(asked) != 5 || len(units) != 3 || asked["pen-1"] < 90 {
				t.Errorf("SKUs %v, quantities %v", asked, units)
			}
			h, err := loadtest.ReadHistory(bytes.NewReader(file.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			again := h.Result()
			if again.Verdict.Finding != row.finding || again.Verdict.AcceptedUnits != r.Verdict.AcceptedUnits ||
				again.Command != r.Command ||
				again.Interrupted {
				t.Errorf("read back: %+v", again.Verdict)
			}
			want := "--skus 5 --skew hot:0.6 --stock 60 --quantity 1,2,3 --concurrency 20 --requests 200 --seed 5"
			if !strings.Contains(r.Command, want) {
				t.Errorf("command %s", r.Command)
			}
		})
	}
}

// The sales of the warm-up are neither judged nor measured, but they are in the history.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	for name, plan := range map[string]loadtest.Plan{
		"closed": {
			Recheck: once(), Strategy: "right", SKU: "pen", Stock: 7, Requests: 10, Concurrency: 2,
			WarmUp: 200 * time.Millisecond,
		},
		"open": {
			Recheck: once(), Strategy: "right", SKU: "pen", Stock: 7, Requests: 10,
			Rate: loadtest.Rate{From: 200, To: 200}, Arrivals: loadtest.Even, WarmUp: 200 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := serve(t, new(mall), nil)
			var file bytes.Buffer
			plan.History = &file
			warm := 0
			r, err := loadtest.Run(t.Context(), client(t, url, "", 2), plan, func(p loadtest.Progress) {
				if p.WarmUp {
					warm++
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			v := r.Verdict
			if v.Finding != loadtest.Holds || v.Sent != 10 || v.Accepted != 7 || v.SoldOut != 3 ||
				r.Latency.All.Count != 10 {
				t.Errorf("%+v, %d measured", v, r.Latency.All.Count)
			}
			if len(r.Warm) == 0 || warm == 0 || r.Records[0].Seq <= r.Warm[len(r.Warm)-1].Seq {
				t.Fatalf("%d requests of the warm-up, %d reports of it", len(r.Warm), warm)
			}
			for _, record := range r.Warm {
				if !record.Warm || record.SKU != "pen-warm" || record.Outcome != loadtest.Accepted {
					t.Fatalf("%+v", record)
				}
			}
			h, err := loadtest.ReadHistory(&file)
			if err != nil || len(h.Warm) != len(r.Warm) || len(h.Records) != 10 || h.Judge().Finding != loadtest.Holds {
				t.Errorf("%v, %d and %d records on file", err, len(h.Warm), len(h.Records))
			}
		})
	}
}

// A run that is limited by time sends until then, and is complete.
func TestDuration(t *testing.T) {
	t.Parallel()
	r, err := loadtest.Run(t.Context(), client(t, new(shop).open(t, nil), "", 2),
		loadtest.Plan{
			Recheck: once(), Strategy: "right", Stock: 1_000_000, Duration: 300 * time.Millisecond, Concurrency: 2,
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Interrupted || len(r.Records) == 0 || r.Verdict.Finding != loadtest.Holds {
		t.Fatalf("interrupted %v after %d records, %s", r.Interrupted, len(r.Records), r.Verdict.Finding)
	}
}

// No worker of a ramp-up starts too early.
func TestRampUp(t *testing.T) {
	t.Parallel()
	const step = 100 * time.Millisecond
	var arrived atomic.Int64
	all := make(chan struct{})
	// The server answers when all requests are there, so that each worker sends one.
	url := new(shop).open(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				if arrived.Add(1) == 4 {
					close(all)
				}
				<-all
			}
			next.ServeHTTP(w, r)
		})
	})
	r, err := loadtest.Run(t.Context(), client(t, url, "", 4),
		loadtest.Plan{
			Recheck: once(), Strategy: "right", Stock: 100, Requests: 4, RampUp: 4 * step, Concurrency: 4,
		}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range r.Records {
		if least := time.Duration(record.Worker-1) * step; record.SentAt.Sub(r.StartedAt) < least {
			t.Errorf("worker %d began %v after the start, want %v or more", record.Worker,
				record.SentAt.Sub(r.StartedAt), least)
		}
	}
}

// An open loop does not wait for replies: while the service hangs, requests go on leaving. A request that is due while
// too many are in flight is dropped.
func TestOpenLoopDoesNotWait(t *testing.T) {
	const most = 20
	full := make(chan struct{})
	release := sync.OnceFunc(func() { close(full) })
	defer release()
	url := new(shop).open(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				<-full
			}
			next.ServeHTTP(w, r)
		})
	})
	r, err := loadtest.Run(t.Context(), client(t, url, "", most), loadtest.Plan{
		Recheck:     once(),
		Strategy:    "right",
		Stock:       1000,
		Rate:        loadtest.Rate{From: 400, To: 400},
		Arrivals:    loadtest.Even,
		Requests:    400,
		MaxInFlight: most,
	}, func(p loadtest.Progress) {
		if p.Dropped > 0 {
			release()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Dropped == 0 || len(r.Records)+r.Dropped != 400 || r.Interrupted {
		t.Errorf("%d records and %d dropped of 400, interrupted %v", len(r.Records), r.Dropped, r.Interrupted)
	}
	if warned := fmt.Sprint(r.Warnings); !strings.Contains(warned, "were dropped: 20 were under way already") {
		t.Errorf("warnings %q", warned)
	}
	for _, record := range r.Records {
		if record.PlannedAt.IsZero() || record.SentAt.Before(record.PlannedAt) || record.Worker < 1 ||
			record.Worker > most {
			t.Fatalf("%+v", record)
		}
	}
}

// The slot of a request that has its reply is free for the next one.
func TestASlotIsFreeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := loadtest.Run(t.Context(), &seller{}, loadtest.Plan{
			Recheck: once(), Strategy: "seller", Stock: 1000, Rate: loadtest.Rate{From: 20, To: 20},
			Arrivals: loadtest.Even, Requests: 5, MaxInFlight: 1,
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Records) != 5 || r.Dropped > 0 {
			t.Errorf("%d sent and %d dropped of 5", len(r.Records), r.Dropped)
		}
	})
}

// Ctrl-C ends an open loop early, and the finished part is judged.
func TestCancelAnOpenLoop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url := new(shop).open(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			if r.Method == http.MethodPost {
				cancel()
			}
		})
	})
	r, err := loadtest.Run(ctx, client(t, url, "", 10), loadtest.Plan{
		Recheck:  once(),
		Strategy: "right", Stock: 1000, Rate: loadtest.Rate{From: 100, To: 100}, Duration: time.Hour,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Interrupted || len(r.Records) == 0 || r.Verdict.Finding != loadtest.Holds || r.Verdict.Unknown > 0 {
		t.Errorf("interrupted %v, %d records, %s %v", r.Interrupted, len(r.Records), r.Verdict.Finding,
			r.Verdict.Reasons)
	}
}

// Latency counts from the time at which a request was due, not from its sending.
func TestLatencyFromThePlannedTime(t *testing.T) {
	tape := newTape(10)
	for i, late := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond} {
		r := tape.next(1)
		r.PlannedAt = noon.Add(time.Duration(i) * time.Second)
		r.SentAt = r.PlannedAt.Add(late)
		r.DoneAt = r.SentAt.Add(2 * time.Millisecond)
	}
	l := loadtest.Measure(tape.records)
	if l.Late != 1 || l.LongestLateMS != 500 || l.All.Max < 502 || l.All.Max > 503 || l.Service == nil ||
		l.Service.Max > 2.1 {
		t.Errorf("%+v, service %+v", l, l.Service)
	}
	h := &loadtest.History{
		Header:  loadtest.Header{Plan: loadtest.Plan{Rate: loadtest.Rate{From: 1, To: 1}}},
		Records: tape.records,
	}
	want := "The generator is the limit, not the service: it sent 1 of 3 requests (33.3 %)"
	if warned := fmt.Sprint(h.Result().Warnings); !strings.Contains(warned, want) {
		t.Errorf("warnings %q", warned)
	}
}

package checkout

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/loadtest"
)

// What customers do not know is asked again until it is known, or the time for it is over.
func TestWhatIsNotKnownIsAskedAgain(t *testing.T) {
	var asked atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch n := asked.Add(1); r.URL.Path {
		case "/v1/reservations/made/confirm":
			if n == 1 {
				w.WriteHeader(http.StatusAccepted) // no reply of ours
			}
		case "/v1/reservations/refused/confirm":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"type":"/problems/sold_out","status":409}`))
			return
		case "/v1/reservations/open/confirm":
			w.WriteHeader(http.StatusAccepted)
			stop()
		}
		_, _ = w.Write([]byte(`{"id":"x"}`))
	}))
	defer server.Close()
	client, err := loadtest.NewClient(server.URL, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &sale{
		clock: loadtest.StartClock(), plan: Plan{Timeout: time.Minute}, shops: []*loadtest.Client{client}, run: "run",
	}
	for _, row := range []struct {
		ref      string
		attempts int
		last     Outcome
	}{{"made", 2, Done}, {"refused", 1, Refused}, {"open", 1, Unknown}} {
		asked.Store(0)
		ask := Ask{Op: OpConfirm, Ref: row.ref, Key: "key"}
		s.open = []pending{{visit: s.visit(1, 1), ask: ask, request: 3, attempt: 4}}
		var records []Record
		s.settle(ctx, func(r *Record) { records = append(records, *r) })
		if len(records) != row.attempts || int(asked.Load()) != row.attempts || len(s.open) != 0 {
			t.Errorf("%s: %d attempts of %d, want %d", row.ref, len(records), asked.Load(), row.attempts)
			continue
		}
		for i, r := range records {
			if !r.Settling || r.Attempt != 5+i || r.Request != 3 {
				t.Errorf("%s: %+v", row.ref, r)
			}
		}
		if got := records[len(records)-1].Outcome; got != row.last {
			t.Errorf("%s: %s, want %s", row.ref, got, row.last)
		}
	}
}

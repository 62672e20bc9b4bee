package loadtest_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"example.com/stock/loadtest"
)

// Orders that the service reports as unknown are decided before the orders are read. So no order can come into being
// later and spoil the evidence.
func TestUnknownIsSettledBeforeOrdersAreRead(t *testing.T) {
	t.Parallel()
	s := new(shop)
	var mu sync.Mutex
	asked := make(map[string]int)
	var sales atomic.Int64
	problem := func(w http.ResponseWriter, name, id string) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintf(w, `{"type":"/problems/%s","title":"t","status":503,"detail":"d","order_id":%q}`, name, id)
	}
	url := s.open(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case strings.HasSuffix(r.URL.Path, "/settle"):
				id := strings.Split(r.URL.Path, "/")[5]
				if r.Method != http.MethodPost || r.URL.Query().Get("store") != "redis" {
					t.Errorf("%s %s", r.Method, r.URL)
				}
				if asked[id]++; asked[id] == 1 {
					problem(w, "undecided", "")
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"order_id":%q,"sku":"stock","store":"redis","state":"absent","final":true}`, id)
			case strings.HasSuffix(r.URL.Path, "/orders"):
				if len(asked) != 3 || asked["lost-1"] != 2 || asked["lost-2"] != 2 || asked["lost-3"] != 2 {
					t.Errorf("orders are read when these were settled: %v", asked)
				}
				next.ServeHTTP(w, r)
			case r.Method == http.MethodPost:
				if n := sales.Add(1); n <= 3 {
					problem(w, "outcome_unknown", fmt.Sprint("lost-", n))
					return
				}
				next.ServeHTTP(w, r)
			default:
				next.ServeHTTP(w, r)
			}
		})
	})
	r, err := loadtest.Run(t.Context(), client(t, url, "", 2), loadtest.Plan{
		Recheck:  once(),
		Strategy: "right", Stock: 9, Requests: 10, Concurrency: 2,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Verdict; v.Unknown != 3 || v.Accepted != 7 {
		t.Errorf("unknown %d, accepted %d; want 3 and 7", v.Unknown, v.Accepted)
	}
}

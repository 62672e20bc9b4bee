package handler_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/service"
)

// holder is the holder of the fake service's lock "stock", with all that can be known of it.
func holder() *lock.Contender {
	return &lock.Contender{
		Who: "app-1/r", Since: time.Now().Add(-time.Second), Remaining: 9 * time.Second, Fence: 7,
	}
}

func (d *fakeService) Lock(_ context.Context, strategy, key string) (service.Locked, error) {
	switch {
	case strategy == "none":
		return service.Locked{}, fmt.Errorf("strategy none: %w", service.ErrNotInspectable)
	case key == "free":
		return service.Locked{State: lock.State{}}, nil
	case key == "split":
		return service.Locked{State: lock.State{}, Segments: []service.SegmentLock{
			{
				Segment: 3, Key: "split#3",
				State: lock.State{Holder: holder(), Waiters: []lock.Contender{{Who: "app-2/w"}}},
			},
			{Segment: 8, Key: "split#8", State: lock.State{Waiters: []lock.Contender{{}}}},
		}}, nil
	case strings.Contains(key, "/"):
		who := strings.Repeat("é", 200) + "/x"
		own := &lock.Contender{Who: who, Remaining: driver.Forever}
		return service.Locked{State: lock.State{Local: true, Holder: own}}, nil
	}
	return service.Locked{State: lock.State{
		Holder: holder(), Waiters: []lock.Contender{{Who: "10.0.0.9"}, {Who: "a/b/c"}, {}},
	}}, nil
}

func (d *fakeService) Evict(_ context.Context, strategy, key string) (service.Eviction, error) {
	switch {
	case strategy == "local-mutex":
		return service.Eviction{}, service.ErrNotEvictable
	case key == "free":
		return service.Eviction{Fence: 9}, nil
	case key == "gone":
		return service.Eviction{}, driver.Down("evict", errors.New("dial tcp 10.0.0.7:6379: refused"))
	}
	return service.Eviction{Fence: 9, Holder: holder(), Stores: map[string]error{
		"redis": nil, "mysql": &service.GuardError{Guard: "none"},
	}}, nil
}

// A reply names what is known of a holder and of a waiter, and no more. Of a segment it has the key by which its lock
// can be asked for and taken away; of an eviction, what the stores said.
func TestLockTellsWhatIsKnownAndNoMore(t *testing.T) {
	s := serveAdmin(t, &fakeService{}, nil)
	for _, row := range []struct {
		method, path string
		says, omits  []string
	}{
		{http.MethodGet, "redis-watchdog/stock", []string{
			`"scope":"cluster"`, `"instance":"app-1","request_id":"r","since":`, `"remaining_ms":9000,"fence":7}`,
			`"waiters":[{"who":"10.0.0.9"},{"who":"a/b/c","instance":"a/b","request_id":"c"},{"who":""}]`,
		}, nil},
		{http.MethodGet, "redis-watchdog/free", []string{`"holder":null,"waiters":[]`}, nil},
		{
			http.MethodGet, "local-mutex/nightly%2Feu%20report",
			[]string{`"key":"nightly/eu report"`, `"scope":"process"`, `"who":"` + strings.Repeat("é", 100) + `"`},
			[]string{"remaining_ms"},
		},
		{http.MethodGet, "segmented/split", []string{
			`"segment":3,"key":"split#3","holder":{"who":"app-1/r"`, `"who":"app-2/w"`,
			`"segment":8,"key":"split#8","holder":null,"waiters":[{"who":""}]`,
		}, nil},
		{http.MethodDelete, "redis-watchdog/free", []string{`"fence":9,"evicted":null`}, nil},
		{http.MethodDelete, "redis-watchdog/stock", []string{
			`"fence":9,"evicted":{"who":"app-1/r"`, `"stores":{"mysql":"strategy_mismatch","redis":"raised"}`,
		}, nil},
	} {
		r := ask(t, row.method, s.URL+"/v1/locks/"+row.path, "", "Authorization", "Bearer "+token)
		for _, text := range row.says {
			if r.StatusCode != http.StatusOK || !strings.Contains(string(r.body), text) {
				t.Errorf("%s %s: %d %s, want %s", row.method, row.path, r.StatusCode, r.body, text)
			}
		}
		for _, text := range row.omits {
			if strings.Contains(string(r.body), text) {
				t.Errorf("%s %s: %s has %s", row.method, row.path, r.body, text)
			}
		}
	}
}

func TestLockProblems(t *testing.T) {
	s := serveAdmin(t, &fakeService{}, nil)
	admin := []string{"Authorization", "Bearer " + token}
	wantProblem(t, ask(t, http.MethodGet, s.URL+"/v1/locks/none/stock", ""), 404, "not_inspectable")
	wantProblem(t, ask(t, http.MethodGet, s.URL+"/v1/locks/redis-watchdog/stock?wait=1s", ""), 400, "invalid")
	wantProblem(t, ask(t, http.MethodGet, s.URL+"/v1/locks/redis-watchdog", ""), 404, "not_found")
	wantProblem(t, ask(t, http.MethodPost, s.URL+"/v1/locks/redis-watchdog/stock", ""), 405, "method_not_allowed")
	wantProblem(t, ask(t, http.MethodDelete, s.URL+"/v1/locks/redis-watchdog/gone", "", admin...), 503, "backend_down")
	r := ask(t, http.MethodDelete, s.URL+"/v1/locks/local-mutex/stock", "", admin...)
	wantProblem(t, r, 405, "not_evictable")
	if r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow %q", r.Header.Get("Allow"))
	}
}

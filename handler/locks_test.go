package handler_test

import (
	"context"
	"encoding/json"
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

func TestLockRepliesConformToTheirSchema(t *testing.T) {
	s := serveAdmin(t, &fakeService{}, nil)
	for _, key := range []string{"stock", "free", "split", "nightly%2Feu%20report"} {
		r := ask(t, http.MethodGet, s.URL+"/v1/locks/redis-watchdog/"+key, "")
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", key, r.body)
		}
		conform(t, "Lock", r.body)
	}
	for _, key := range []string{"stock", "free"} {
		r := ask(t, http.MethodDelete, s.URL+"/v1/locks/redis-watchdog/"+key, "", "Authorization", "Bearer "+token)
		if r.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", key, r.body)
		}
		conform(t, "Eviction", r.body)
	}
}

func TestLockTellsWhatIsKnownAndNoMore(t *testing.T) {
	s := serveAdmin(t, &fakeService{}, nil)
	var got struct {
		Key, Scope string
		Holder     map[string]any
		Waiters    []map[string]any
	}
	reply := ask(t, http.MethodGet, s.URL+"/v1/locks/redis-watchdog/stock", "")
	if err := json.Unmarshal(reply.body, &got); err != nil {
		t.Fatal(err)
	}
	h := got.Holder
	if h["instance"] != "app-1" || h["request_id"] != "r" || h["fence"] != 7.0 || h["remaining_ms"] != 9000.0 ||
		h["since_ms"].(float64) < 1000 {
		t.Errorf("holder %v", h)
	}
	if len(got.Waiters) != 3 || len(got.Waiters[0]) != 1 || got.Waiters[1]["instance"] != "a/b" ||
		got.Waiters[2]["who"] != "" {
		t.Errorf("waiters %v: want the name alone where nothing else is known, and who it is only if that was told",
			got.Waiters)
	}
	r := ask(t, http.MethodGet, s.URL+"/v1/locks/local-mutex/a%2Fb", "")
	got.Holder = nil
	if err := json.Unmarshal(r.body, &got); err != nil || got.Key != "a/b" || got.Scope != "process" {
		t.Errorf("%+v, %v", got, err)
	}
	if len(got.Holder["who"].(string)) > 200 || got.Holder["remaining_ms"] != nil {
		t.Errorf("holder %v: want the name cut, and no limit where there is none", got.Holder)
	}
}

// Each segment of a SKU is shown with the key that its lock can be asked for, and taken away, by.
func TestLockTellsTheSegments(t *testing.T) {
	r := ask(t, http.MethodGet, serveAdmin(t, &fakeService{}, nil).URL+"/v1/locks/segmented/split", "")
	var got struct {
		Holder   any
		Segments []struct {
			Segment int
			Key     string
			Holder  *struct{ Who string }
			Waiters []struct{ Who string }
		}
	}
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatal(err)
	}
	if got.Holder != nil || len(got.Segments) != 2 {
		t.Fatalf("%s", r.body)
	}
	if third := got.Segments[0]; third.Segment != 3 || third.Key != "split#3" || third.Holder.Who != "app-1/r" ||
		third.Waiters[0].Who != "app-2/w" {
		t.Errorf("%+v", third)
	}
	if last := got.Segments[1]; last.Holder != nil || len(last.Waiters) != 1 {
		t.Errorf("%+v", last)
	}
}

func TestEvictionTellsTheStores(t *testing.T) {
	r := ask(t, http.MethodDelete, serveAdmin(t, &fakeService{}, nil).URL+"/v1/locks/redis-watchdog/stock", "",
		"Authorization", "Bearer "+token)
	var got struct {
		Fence   int
		Evicted struct{ Who string }
		Stores  map[string]string
	}
	if err := json.Unmarshal(r.body, &got); err != nil {
		t.Fatal(err)
	}
	if got.Fence != 9 || got.Evicted.Who != "app-1/r" || got.Stores["redis"] != "raised" ||
		got.Stores["mysql"] != "strategy_mismatch" {
		t.Errorf("%s", r.body)
	}
}

func TestLockProblems(t *testing.T) {
	s := serveAdmin(t, &fakeService{}, nil)
	admin := []string{"Authorization", "Bearer " + token}
	wantProblem(t, ask(t, http.MethodGet, s.URL+"/v1/locks/none/stock", ""), 404, "not_inspectable")
	wantProblem(t, ask(t, http.MethodGet, s.URL+"/v1/locks/redis-watchdog/stock?wait=1s", ""), 400, "invalid")
	wantProblem(t, ask(t, http.MethodGet, s.URL+"/v1/locks/redis-watchdog", ""), 404, "not_found")
	wantProblem(t, ask(t, http.MethodPost, s.URL+"/v1/locks/redis-watchdog/stock", ""), 405, "method_not_allowed")
	wantProblem(t, ask(t, http.MethodDelete, s.URL+"/v1/locks/redis-watchdog/stock", ""), 401, "unauthorized")
	wantProblem(t, ask(t, http.MethodDelete, s.URL+"/v1/locks/redis-watchdog/stock", "", "Authorization",
		"Bearer wrong"), 401, "unauthorized")
	wantProblem(t, ask(t, http.MethodDelete, s.URL+"/v1/locks/redis-watchdog/gone", "", admin...), 503, "backend_down")
	r := ask(t, http.MethodDelete, s.URL+"/v1/locks/local-mutex/stock", "", admin...)
	wantProblem(t, r, 405, "not_evictable")
	if r.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow %q", r.Header.Get("Allow"))
	}
}

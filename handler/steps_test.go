package handler_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/lock"
	"example.com/stock/service"
)

// An eventReader reads server-sent events.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
}

func follow(t *testing.T, url string) *eventReader {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	if res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %s", res.StatusCode, res.Header)
	}
	return &eventReader{t, bufio.NewScanner(res.Body)}
}

// next returns the data of the next message, or "" at the end of the stream.
func (r *eventReader) next() string {
	for r.lines.Scan() {
		if data, ok := strings.CutPrefix(r.lines.Text(), "data: "); ok {
			return data
		}
	}
	return ""
}

type stepsSeen struct {
	Boot    int64
	Dropped uint64
	Steps   []struct {
		Number               uint64
		Kind, Outcome, Fence string
		Read                 int64
		Replayed             bool
	}
}

func (r *eventReader) steps() (seen stepsSeen) {
	r.t.Helper()
	data := r.next()
	if err := json.Unmarshal([]byte(data), &seen); err != nil {
		r.t.Fatalf("%v: %q", err, data)
	}
	fits(r.t, "/components/schemas/Steps", []byte(data))
	return seen
}

// The steps come while they happen, also those that happened before, and what was forgotten is counted.
func TestStepsAreStreamed(t *testing.T) {
	ring := service.NewSteps(4)
	s := serveAdmin(t, &fakeService{}, func(c *handler.Config) { c.Lab, c.Steps = true, ring })
	tell := func(kind service.StepKind, err error) {
		ring.Tell(service.Step{
			At: time.Now(), Kind: kind, RequestID: "r:1", Strategy: "none", SKU: "stock", Read: 7,
			Fence: 1795311526293384, Err: err,
		})
	}
	for range 5 {
		tell(service.Woken, nil)
	}
	ring.Tell(service.Step{Kind: service.ReadIt, Read: 8, Batch: service.InBatch{ID: order().ID, Size: 2}})
	r := follow(t, s.URL+"/v1/lab/steps?after=0")
	seen := r.steps()
	if seen.Dropped != 2 || len(seen.Steps) != 4 || seen.Steps[0].Number != 3 || seen.Boot == 0 ||
		seen.Steps[0].Fence != "1795311526293384" || seen.Steps[0].Read != 7 || seen.Steps[3].Read != 8 {
		t.Errorf("%+v", seen)
	}
	live := follow(t, s.URL+"/v1/lab/steps")
	tell(service.Ended, nil)
	for _, r := range []*eventReader{r, live} {
		if seen := r.steps(); len(seen.Steps) != 1 || seen.Steps[0].Outcome != "accepted" || seen.Steps[0].Number != 7 {
			t.Errorf("%+v", seen)
		}
	}
	tell(service.Ended, &service.OrderError{Err: lock.ErrLost})
	if seen := live.steps(); seen.Steps[0].Outcome != "lock_lost" {
		t.Errorf("%+v", seen)
	}
	ring.Tell(service.Step{At: time.Now(), Kind: service.Ended, RequestID: "r:2", SKU: "stock", Replayed: true})
	if seen := live.steps(); !seen.Steps[0].Replayed || seen.Steps[0].Outcome != "accepted" {
		t.Errorf("%+v", seen)
	}
	tell(service.Ended, errors.New("nobody's business"))
	if seen := live.steps(); seen.Steps[0].Outcome != "internal" {
		t.Errorf("%+v", seen)
	}
}

// A stream ends when the instance stops: it must not hold up the end. How long it lasted is no latency.
func TestAStreamEndsWithTheInstance(t *testing.T) {
	draining := make(chan struct{})
	c := config(&fakeService{}, func(c *handler.Config) {
		c.Lab, c.Steps = true, service.NewSteps(4)
		c.Draining = func() bool {
			select {
			case <-draining:
				return true
			default:
				return false
			}
		}
	})
	s := httptest.NewServer(handler.NewAdmin(c))
	ask(t, http.MethodGet, s.URL+"/livez", "")
	r := follow(t, s.URL+"/v1/lab/steps")
	close(draining)
	if data := r.next(); data != "" {
		t.Errorf("got %s", data)
	}
	s.Close() // waits for its requests
	measured := record(c.Metrics, http.MethodGet, "/metrics", "").Body.String()
	if !strings.Contains(measured, `route="/livez"`) || strings.Contains(measured, `route="/v1/lab/steps"`) {
		t.Errorf("measured:\n%s", measured)
	}
}

func TestSalesUnderWayAreHeld(t *testing.T) {
	held := &pausedSale{}
	s := serveAdmin(t, &fakeService{}, func(c *handler.Config) { c.Lab, c.Pauses = true, held })
	admin := []string{"Authorization", "Bearer " + token}
	for _, row := range []struct {
		method, path string
		status       int
		body         string
	}{
		{
			http.MethodPut, "/v1/lab/pauses/r:1?pause=after_read,before_write", 200,
			`{"pause":"after_read,before_write"}`,
		},
		{http.MethodPut, "/v1/lab/pauses?pause=after_lock", 200, `{"pause":"after_lock"}`},
		{http.MethodDelete, "/v1/lab/pauses", 200, `{"released":3}`},
		{http.MethodPut, "/v1/lab/pauses/r:2?pause=after_read", 404, ""},
		{http.MethodPut, "/v1/lab/pauses/r:1", 400, ""},
		{http.MethodPut, "/v1/lab/pauses/r:1?pause=", 400, ""},
		{http.MethodPut, "/v1/lab/pauses?pause=lunch", 400, ""},
	} {
		r := ask(t, row.method, s.URL+row.path, "", admin...)
		if r.StatusCode != row.status || row.body != "" && string(r.body) != row.body {
			t.Errorf("%s %s: %d %s", row.method, row.path, r.StatusCode, r.body)
		}
	}
	if held.points != service.AfterRead|service.BeforeWrite || held.all != service.AfterLock || held.steps != 1 {
		t.Errorf("%+v", held)
	}
	if r := ask(t, http.MethodPut, s.URL+"/v1/lab/pauses", "", admin...); r.StatusCode != 200 || held.all != 0 {
		t.Errorf("%d %s, and all wait at %v", r.StatusCode, r.body, held.all)
	}
	outside := serveAdmin(t, &fakeService{}, nil)
	for _, path := range []string{"/v1/lab/steps", "/v1/lab/pauses", "/v1/lab/pauses/r:1"} {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			wantProblem(t, ask(t, method, outside.URL+path, "", admin...), 404, "not_found")
		}
	}
}

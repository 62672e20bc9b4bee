package handler_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"example.com/stock/handler"
	"example.com/stock/service"
)

// A pausedSale is the only sale that waits, until it is let go.
type pausedSale struct {
	gone        bool
	points, all service.Points
	steps       int
}

func (s *pausedSale) List() []service.Pause {
	if s.gone {
		return nil
	}
	return []service.Pause{{
		RequestID: "r:1", Strategy: "zk-sequential", SKU: "stock", Point: service.AfterRead,
		Since: time.Now().Add(-time.Second),
	}}
}

func (s *pausedSale) Release(id string) (service.Pause, error) {
	if s.gone || id != "r:1" {
		return service.Pause{}, service.ErrNotPaused
	}
	p := s.List()[0]
	s.gone = true
	return p, nil
}

func (s *pausedSale) Hold(id string, points service.Points) error {
	if id != "r:1" {
		return service.ErrNotPaused
	}
	s.points = points
	return nil
}
func (s *pausedSale) HoldAll(points service.Points) { s.all = points }
func (s *pausedSale) ReleaseAll() int               { s.steps++; return 3 }

func TestPausesAreListedAndReleased(t *testing.T) {
	s := serveAdmin(t, &fakeService{}, func(c *handler.Config) { c.Lab, c.Pauses = true, &pausedSale{} })
	admin := []string{"Authorization", "Bearer " + token}
	var list struct{ Pauses []json.RawMessage }
	if err := json.Unmarshal(ask(t, http.MethodGet, s.URL+"/v1/lab/pauses", "", admin...).body, &list); err != nil ||
		len(list.Pauses) != 1 {
		t.Fatal(err, list)
	}
	wantProblem(t, ask(t, http.MethodDelete, s.URL+"/v1/lab/pauses/r:2", "", admin...), 404, "not_paused")
	r := ask(t, http.MethodDelete, s.URL+"/v1/lab/pauses/r:1", "", admin...)
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, r.body)
	}
	wantProblem(t, ask(t, http.MethodDelete, s.URL+"/v1/lab/pauses/r:1", "", admin...), 404, "not_paused")
	if r := ask(t, http.MethodGet, s.URL+"/v1/lab/pauses", "", admin...); string(r.body) != `{"pauses":[]}` {
		t.Errorf("%s, want an empty list", r.body)
	}
}

func TestWhatTheLabAsksOfTheCourseOfASale(t *testing.T) {
	d := &fakeService{deduct: func(context.Context, service.Request) (service.Receipt, error) { return receipt(), nil }}
	s := serve(t, d, func(c *handler.Config) { c.Lab, c.Pauses = true, &pausedSale{} })
	for _, row := range []struct {
		query string
		want  service.Lab
		field string
	}{
		{"pause=after_read", service.Lab{Pause: service.AfterRead}, ""},
		{"pause=after_unlock,before_lock", service.Lab{Pause: service.BeforeLock | service.AfterUnlock}, ""},
		{"nested=holder", service.Lab{Nested: service.NestedHolder}, ""},
		{"nested=stranger", service.Lab{Nested: service.NestedStranger}, ""},
		{"pause=lunch", service.Lab{}, "pause"},
		{"pause=", service.Lab{}, "pause"},
		{"nested=deeply", service.Lab{}, "nested"},
	} {
		d.asked = nil
		wantProblem(t, ask(t, http.MethodPost, s.URL+"/deduct_stock_zk?"+row.query, ""),
			map[bool]int{true: 401, false: 400}[row.field == ""],
			map[bool]string{true: "unauthorized", false: "invalid"}[row.field == ""])
		r := ask(t, http.MethodPost, s.URL+"/deduct_stock_zk?"+row.query, "", "Authorization", "Bearer "+token)
		switch {
		case row.field != "" &&
			(r.StatusCode != http.StatusBadRequest || r.problem.Field != row.field || d.asked != nil):
			t.Errorf("%s: %d %s", row.query, r.StatusCode, r.body)
		case row.field == "" && (len(d.asked) != 1 || d.asked[0].Lab != row.want):
			t.Errorf("%s: asked %+v, want %+v", row.query, d.asked, row.want)
		}
	}
}

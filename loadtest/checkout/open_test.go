package checkout_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// A run that cannot begin says why: a plan that is none, a shop that does not stock, a ctx that has ended.
func TestARunThatCannotBegin(t *testing.T) {
	t.Parallel()
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	good, url := serve(t)
	ended, end := context.WithCancel(t.Context())
	end()
	bad := plan()
	bad.SKUs = -1
	for name, row := range map[string]struct {
		ctx  context.Context
		url  string
		plan checkout.Plan
		is   func(error) bool
	}{
		"no plan": {t.Context(), url, bad, func(err error) bool { return errors.As(err, new(*loadtest.PlanError)) }},
		"no shop": {t.Context(), refuses.URL, plan(), func(err error) bool {
			return errors.As(err, new(*loadtest.TargetError))
		}},
		"no time": {ended, url, plan(), func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		client, err := loadtest.NewClient(row.url, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := checkout.Run(row.ctx, []*loadtest.Client{client}, row.plan, good, nil)
		client.Close()
		if r != nil || !row.is(err) {
			t.Errorf("%s: %v, a result: %t", name, err, r != nil)
		}
	}
}

// What is told while a run goes on: never more visits than there are to be, unless the time ends it; and the last time
// is the end.
func TestProgressOfARun(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*checkout.Plan){
		"by visits": func(p *checkout.Plan) { p.Visits = 40 },
		"by time":   func(p *checkout.Plan) { p.Visits, p.Duration = 0, 300*time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := serve(t)
			p := plan()
			change(&p)
			client, err := loadtest.NewClient(url, "", p.Concurrency)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			var told []checkout.Progress
			_, err = checkout.Run(t.Context(), []*loadtest.Client{client}, p, s, func(p checkout.Progress) {
				told = append(told, p)
			})
			if err != nil || len(told) < 3 {
				t.Fatalf("told %d times, %v", len(told), err)
			}
			for i, now := range told {
				if now.Total != p.Visits || p.Visits > 0 && now.Visits > p.Visits || now.Last != (i == len(told)-1) {
					t.Errorf("%d of %d: %+v", i+1, len(told), now)
				}
			}
			if end := told[len(told)-1]; end.Visits == 0 || end.Requests < end.Visits || end.Elapsed < told[0].Elapsed {
				t.Errorf("at the end: %+v", end)
			}
		})
	}
}

package checkout_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// A run that cannot begin says why: a plan that is none, a shop that does not stock, a ctx that has ended.
func TestARunThatCannotBegin(t *testing.T) {
	t.Parallel()
	refuses := httptest.NewServer(http.NotFoundHandler())
	defer refuses.Close()
	shop := newShop(t)
	good := httptest.NewServer(shop)
	defer good.Close()
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
		"no plan": {t.Context(), good.URL, bad, func(err error) bool {
			return errors.As(err, new(*loadtest.PlanError))
		}},
		"no shop": {t.Context(), refuses.URL, plan(), func(err error) bool {
			return errors.As(err, new(*loadtest.TargetError))
		}},
		"no time": {ended, good.URL, plan(), func(err error) bool { return errors.Is(err, context.Canceled) }},
	} {
		client, err := loadtest.NewClient(row.url, "", 1)
		if err != nil {
			t.Fatal(err)
		}
		r, err := checkout.Run(row.ctx, []*loadtest.Client{client}, row.plan, shop, nil)
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
			p := plan()
			change(&p)
			var told []checkout.Progress
			synctest.Test(t, func(t *testing.T) {
				s := newShop(t)
				shops := []*loadtest.Client{s.client(t, p.Concurrency)}
				_, err := checkout.Run(t.Context(), shops, p, s, func(p checkout.Progress) { told = append(told, p) })
				if err != nil || len(told) < 3 {
					t.Fatalf("told %d times, %v", len(told), err)
				}
			})
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

// A visit makes the requests of its way, one after the other, until one is refused.
func TestAVisitGoesItsWay(t *testing.T) {
	t.Parallel()
	const (
		place, cancel    = checkout.OpPlace, checkout.OpCancel
		reserve, confirm = checkout.OpReserve, checkout.OpConfirm
		release, extend  = checkout.OpRelease, checkout.OpExtend
	)
	want := map[checkout.Way][]checkout.Op{
		checkout.Buy: {place}, checkout.Regret: {place, cancel}, checkout.MisuseKey: {place, place},
		checkout.Pay: {reserve, confirm}, checkout.Return: {reserve, confirm, cancel},
		checkout.Leave: {reserve, release}, checkout.Think: {reserve, extend, confirm}, checkout.Forget: {reserve},
		checkout.PayLate: {reserve, confirm}, checkout.LastTick: {reserve, confirm},
		checkout.TwoTabs: {reserve, release, confirm}, checkout.Deliver: {checkout.OpDeliver},
	}
	p := plan()
	p.Stock = 5000
	_, run := run(t, p)
	visits := make(map[int]map[int]*checkout.Record) // the last attempt of each request
	for _, r := range run.Evidence.Records {
		if r.Visit > 0 && !r.Again && !r.Settling {
			if visits[r.Visit] == nil {
				visits[r.Visit] = make(map[int]*checkout.Record)
			}
			visits[r.Visit][r.Request] = &r
		}
	}
	whole := make(map[checkout.Way]int)
	for n, requests := range visits {
		var ops []checkout.Op
		var last *checkout.Record
		for _, i := range slices.Sorted(maps.Keys(requests)) {
			last = requests[i]
			ops = append(ops, last.Op)
		}
		if last.Way == checkout.TwoTabs && len(ops) == 3 {
			slices.Sort(ops[1:]) // both at the same moment
		}
		all := want[last.Way]
		switch {
		case slices.Equal(ops, all):
			whole[last.Way]++
		case len(ops) >= len(all) || !slices.Equal(ops, all[:len(ops)]) || last.Outcome == checkout.Done:
			t.Errorf("visit %d, %s: %v, the last %s; want %v", n, last.Way, ops, last.Outcome, all)
		}
	}
	for _, way := range checkout.Ways() {
		if whole[way] == 0 {
			t.Errorf("no visit went %s to its end: %v", way, whole)
		}
	}
}

// The command that repeats a run is that of its plan, quoted for a shell.
func TestTheCommandOfARun(t *testing.T) {
	p := checkout.Plan{
		SKU: "a b", Visits: 7, Concurrency: 3, Seed: 9, Timeout: time.Minute, PerCustomer: -1, Lost: 0.25,
		At: []loadtest.Command{{AtMS: 2000, Shell: "kill 1"}},
	}
	p, err := p.Filled()
	const want = "stock checkout --url here --sku 'a b' --skus 20 --skew zipf:1.1 --stock 100 --quantity 1,2 " +
		"--lines 4 --per-customer 0 --lost-replies 0.25 --concurrency 3 --seed 9 --timeout 1m0s " +
		"--at '2s=kill 1' --visits 7"
	if got := p.Command("here"); err != nil || got != want {
		t.Errorf("%v\ngot  %s\nwant %s", err, got, want)
	}
}

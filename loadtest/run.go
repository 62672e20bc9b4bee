package loadtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"
)

// After a run, the final state is looked at for lookLimit at most. Where outcomes are unknown, instances may still be busy
// with them, so the stock must first have been at rest for quiet.
const (
	lookLimit = 30 * time.Second
	quiet     = time.Second
)

// warmStock is what the SKUs of a warm-up get: enough to sell all the time.
const warmStock = 1_000_000_000

// Run sets the stock, sends the requests, looks at what the store says then, and judges.
//
// It calls progress, if not nil, about five times a second and at the end. When ctx ends during the attack, what was done is judged
// all the same, and that is no error. Errors are PlanErrors (cannot be run as asked for), TargetErrors (the target is down, refuses, or
// is no stock service), ctx's error if it ended before the first request, and errors of Plan.History, with which a Result comes too.
//
// The warm-up sells from SKUs of its own ("-warm" after the name): a request of it that hangs, and sells when the run is on, does not
// touch the stock that is judged. It warms connections, pools, scripts and code, not what a lock or a store keeps by SKU.
func Run(ctx context.Context, c Target, p Plan, progress func(Progress)) (*Result, error) {
	p, err := p.filled()
	if err != nil {
		return nil, err
	}
	r := &Result{Target: c.URL(), Run: "load-" + strings.ToLower(rand.Text()[:10])}
	if r.Strategy, p.Store, err = choose(ctx, c, p); err != nil {
		return nil, err
	}
	if p.WarmUp > 0 {
		if _, err := setStocks(ctx, c, p.Store, p.warmUp().Names(), warmStock); err != nil {
			return nil, err
		}
	}
	before, err := setStocks(ctx, c, p.Store, p.Names(), p.Stock)
	if err != nil {
		return nil, err
	}
	if w, can := c.(warmer); can && !p.Cold {
		w.Warm(ctx, p.warmConnections())
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("before the first request: %w", context.Cause(ctx))
	}
	r.Plan, r.Command = p, commandLine(r.Target, &p)
	r.StartedAt = time.Now().UTC()
	out := newHistoryWriter(p.History)
	out.header(Header{
		Run: r.Run, Target: r.Target, StartedAt: r.StartedAt, Plan: p, Strategy: r.Strategy, Command: r.Command, Before: before,
	})
	r.attack(ctx, c, out, progress)

	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookLimit)
	defer cancel()
	settleUnknown(look, c, p.Store, r.Records)
	late := LookAgain(look, func() bool {
		r.Accounts = accounts(look, c, before, p.Store, r.Records)
		r.judge()
		return r.Verdict.mayComeRight()
	})
	if late > 0 {
		r.SettledMS = float64(late) / float64(time.Millisecond)
		r.Warnings = r.warnings()
	}
	out.end(r)
	if err := out.flush(); err != nil {
		return r, fmt.Errorf("write history: %w", err)
	}
	return r, nil
}

// LateLimit is how much later than the first look a target may tell of stock and orders what it knew: a cache, a replica, an index that lags. What does
// not agree with the replies by then is a contradiction.
const LateLimit = 3 * time.Second

// LookAgain calls wrong, and again for LateLimit as long as it says that what it finds may come right by itself. late is when the look began that found
// nothing wrong any more; 0: the first one did, or none.
func LookAgain(ctx context.Context, wrong func() bool) (late time.Duration) {
	for began := time.Now(); wrong(); late = time.Since(began) {
		if time.Since(began) >= LateLimit || Sleep(ctx, LateLimit/20) != nil {
			return 0
		}
	}
	return late
}

// mayComeRight reports whether all that is wrong may be what a target tells late. What orders themselves show, such as two that read the same version,
// cannot.
func (v *Verdict) mayComeRight() bool {
	return v.late && v.Collisions == 0 && v.OversoldUnits == 0 && v.StaleReads == 0
}

// setStocks sets each SKU's stock.
func setStocks(ctx context.Context, c Target, store string, skus []string, quantity int64) ([]Stock, error) {
	list := make([]Stock, 0, len(skus))
	for _, sku := range skus {
		stock, err := c.SetStock(ctx, store, sku, quantity)
		if err != nil {
			return nil, err
		}
		list = append(list, stock)
	}
	return list, nil
}

// choose looks up the strategy and settles the store.
func choose(ctx context.Context, c Target, p Plan) (s Strategy, store string, err error) {
	catalogue, err := c.Strategies(ctx)
	if err != nil {
		return s, "", err
	}
	if s, err = Find(catalogue, p.Strategy); err != nil {
		return s, "", err
	}
	store = p.Store
	if store == "" {
		store = s.DefaultStore
	}
	switch {
	case !s.Available:
		return s, "", &TargetError{c.URL(), fmt.Errorf("cannot run strategy %s now: %s", s.Name, s.Reason)}
	case len(s.Stores) > 0 && store != "" && !slices.Contains(s.Stores, store):
		return s, "", &PlanError{"store", fmt.Sprintf("strategy %s works on %s, not on %s", s.Name, strings.Join(s.Stores, " and "), store)}
	case s.DownStores[store] != "":
		return s, "", &TargetError{c.URL(), fmt.Errorf("cannot use store %s now: %s", store, s.DownStores[store])}
	}
	return s, store, nil
}

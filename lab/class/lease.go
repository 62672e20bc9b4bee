package class

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// leaseEvery is the interval between two questions for the leases of the current run.
const leaseEvery = 100 * time.Millisecond

// A heldLease is the lease of a holder, as the lock server reported it.
type heldLease struct {
	sku, req   string        // the holder; empty: none
	left, full time.Duration // left is 0 for a session of ZooKeeper, which lasts as long as its process
	waiters    []string      // in the order in which they get the lock, if the server knows it
}

// A leaseWatch has what was reported last of the lock of a SKU.
type leaseWatch struct {
	held heldLease
	seen time.Time
}

// watchLease asks who holds the locks of the current run, and for how long without renewal. It records only what the
// page cannot compute: a new holder, a renewal, the end, and another queue.
//
// The answer is the server's. A frozen or killed holder does not renew, and cannot influence it.
func (c *Class) watchLease() {
	last := map[string]*leaseWatch{}
	watched := 0
	var answers []string
	for loadtest.Sleep(c.ctx, leaseEvery) == nil {
		run, plan := c.current()
		if run == 0 || !plan.Exclusive || plan.Scope != loadtest.Cluster {
			continue
		}
		if run != watched {
			watched, last, answers = run, map[string]*leaseWatch{}, nil
		}
		if plan.Strategy == "redlock" {
			c.noteAnswers(run, &answers)
		}
		for _, sku := range skusOf(run, &plan) {
			if last[sku] == nil {
				last[sku] = &leaseWatch{}
			}
			if held, known := c.askLease(run, &plan, sku); known {
				c.compare(run, last[sku], held)
			}
		}
	}
}

// compare records what is new about a lock.
func (c *Class) compare(run int, last *leaseWatch, held heldLease) {
	now, was := time.Now(), last.held
	renewed := held.left > was.left-now.Sub(last.seen)+held.full/10
	if held.req != was.req && was.req != "" {
		c.note(RunEvent{Kind: freed, Run: run, Req: was.req, SKU: was.sku})
	}
	switch {
	case held.req == "":
	case held.req != was.req:
		c.note(held.event(run, false))
	case held.left > 0 && renewed:
		c.note(held.event(run, true))
	}
	if !slices.Equal(held.waiters, was.waiters) {
		c.note(RunEvent{Kind: queued, Run: run, SKU: held.sku, Answers: held.waiters})
	}
	last.held, last.seen = held, now
}

func (h heldLease) event(run int, renewed bool) RunEvent {
	return RunEvent{
		Kind: leased, Run: run, Req: h.req, SKU: h.sku, On: renewed, Left: h.left.Milliseconds(),
		Full: h.full.Milliseconds(),
	}
}

// askLease returns the lease of a SKU. known is false if no instance has answered.
func (c *Class) askLease(run int, plan *RunPlan, sku string) (held heldLease, known bool) {
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	type contender struct {
		Request   string  `json:"request_id"`
		Remaining float64 `json:"remaining_ms"`
	}
	var reply struct {
		Holder  *contender  `json:"holder"`
		Waiters []contender `json:"waiters"`
	}
	apps := c.up()
	if len(apps) == 0 {
		return held, false
	}
	path := "/v1/locks/" + plan.Strategy + "/" + sku
	if err := c.admins[apps[0].Name].Call(ctx, http.MethodGet, path, nil, &reply); err != nil {
		return held, false
	}
	held.sku, held.full = sku, c.o.scaled(lease)
	if strings.HasPrefix(plan.Strategy, "zk-") {
		held.full = c.o.scaled(session)
	}
	if h := reply.Holder; h != nil && runOf(h.Request) == run {
		held.req, held.left = h.Request, time.Duration(h.Remaining*float64(time.Millisecond))
		held.full = max(held.left, held.full)
	}
	for _, w := range reply.Waiters {
		held.waiters = append(held.waiters, w.Request)
	}
	return held, true
}

// A leaseView is a lease on the wall. The page draws it shrinking from Left at the time At, or, as a session of
// ZooKeeper (Left 0), from the time at which its instance died or froze.
type leaseView struct {
	Req  string `json:"req"`
	From int64  `json:"from"`
	At   int64  `json:"at"`
	Left int64  `json:"left,omitempty"` // ms
	Full int64  `json:"full"`           // ms
	Over int64  `json:"over,omitempty"`
	// Expired is true if the holder did not release it: it was dead, frozen, or cut off.
	Expired bool `json:"expired,omitempty"`
	Times   int  `json:"times,omitempty"` // renewals
}

// leasesShown is the number of the latest leases that a page has.
const leasesShown = 40

// leaseViews returns the latest leases of this run, in their order.
func (s *State) leaseViews() []*leaseView {
	var views []*leaseView
	last := map[string]*leaseView{} // by SKU
	for _, e := range s.leases {
		v := last[e.SKU]
		switch {
		case e.Kind == leased && !e.On:
			v = &leaseView{Req: e.Req, Full: e.Full, From: e.At, At: e.At, Left: e.Left}
			last[e.SKU] = v
			views = append(views, v)
		case v == nil || v.Req != e.Req:
		case e.Kind == freed:
			v.Over, v.Expired = e.At, s.ranOut(v, e.At)
		default:
			v.At, v.Left = e.At, e.Left
			v.Times++
		}
	}
	return views[max(0, len(views)-leasesShown):]
}

// ranOut reports whether a lease ended without a release: a holder that is alive releases its lease early, or renews
// it. A session ends so if its instance died or froze.
func (s *State) ranOut(v *leaseView, at int64) bool {
	if v.Left > 0 {
		return v.Left-(at-v.At)/1000 <= v.Full/10+leaseEvery.Milliseconds()
	}
	r := s.reqs[v.Req]
	if r == nil {
		return false
	}
	n := len(r.seen.Holds)
	return n > 0 && r.seen.Holds[n-1].To == 0 || r.seen.Outcome == "no_reply"
}

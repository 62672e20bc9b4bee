package class

import (
	"context"
	"net/http"
	"time"

	"example.com/stock/loadtest"
)

// leaseEvery is the interval between two questions for the lease of the current run.
const leaseEvery = 100 * time.Millisecond

// A heldLease is the lease of a holder, as Redis reported it.
type heldLease struct {
	req        string // the holder; empty: none
	left, full time.Duration
}

// watchLease asks who holds the lock of the current run, and for how long without renewal. It records only what the
// page cannot compute: a new holder, a renewal, and the end.
//
// The answer is the server's. A frozen or killed holder does not renew, and cannot influence it.
func (c *Class) watchLease() {
	var last heldLease
	var seen time.Time
	for loadtest.Sleep(c.ctx, leaseEvery) == nil {
		now := time.Now()
		held, run, known := c.askLease()
		if !known {
			continue
		}
		renewed := held.left > last.left-now.Sub(seen)+held.full/10
		switch {
		case held.req != last.req && last.req != "":
			c.note(RunEvent{Kind: freed, Run: runOf(last.req), Req: last.req})
			fallthrough
		case held.req != last.req && held.req != "":
			if held.req != "" {
				c.note(held.event(run, false))
			}
		case held.req != "" && renewed:
			c.note(held.event(run, true))
		}
		last, seen = held, now
	}
}

func (h heldLease) event(run int, renewed bool) RunEvent {
	return RunEvent{
		Kind: leased, Run: run, Req: h.req, On: renewed, Left: h.left.Milliseconds(),
		Full: h.full.Milliseconds(),
	}
}

// askLease returns the lease of the current run. known is false if no server has answered.
func (c *Class) askLease() (held heldLease, run int, known bool) {
	c.mu.Lock()
	run, left, plan := c.run, c.left, c.plan
	c.mu.Unlock()
	if run == 0 || left == 0 || !plan.Exclusive || plan.Scope != loadtest.Cluster {
		return held, run, true
	}
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	var reply struct {
		Holder *struct {
			Request   string  `json:"request_id"`
			Remaining float64 `json:"remaining_ms"`
		} `json:"holder"`
	}
	for i, app := range c.apps {
		if c.stateOf(app.Name) != "up" {
			continue
		}
		err := c.admins[i].Call(ctx, http.MethodGet, "/v1/locks/"+plan.Strategy+"/"+skuOf(run), nil, &reply)
		if err != nil {
			return held, run, false
		}
		// Locks without a lease, such as those of MySQL and ZooKeeper, have no remaining time.
		if h := reply.Holder; h != nil && h.Remaining > 0 && runOf(h.Request) == run {
			left := time.Duration(h.Remaining * float64(time.Millisecond))
			held = heldLease{req: h.Request, left: left, full: max(left, c.o.scaled(lease))}
		}
		return held, run, true
	}
	return held, run, false
}

// leased and freed are the kinds of events about the lock of a run.
const (
	leased = "leased" // the server reported a new holder or, if On, a renewal
	freed  = "freed"  // the server reported that Req holds the lock no more
)

// A leaseView is a lease on the wall. The page draws it shrinking from Left at the time At.
type leaseView struct {
	Req  string `json:"req"`
	N    int    `json:"n"`
	Who  string `json:"who,omitempty"`
	At   int64  `json:"at"`
	Left int64  `json:"left"` // ms
	Full int64  `json:"full"` // ms
	Over int64  `json:"over,omitempty"`
	// Expired is true if the holder did not release it: it was dead, frozen, or cut off.
	Expired bool    `json:"expired,omitempty"`
	Ticks   []int64 `json:"ticks,omitempty"` // of the latest renewals
	Times   int     `json:"times"`           // renewals
}

// ticksShown is the number of renewals that are drawn.
const ticksShown = 40

// leasesByApp returns the latest lease of each instance in this run.
func (s *State) leasesByApp() map[string]*leaseView {
	views := make(map[string]*leaseView)
	var v *leaseView
	for _, e := range s.leases {
		switch {
		case e.Kind == leased && !e.On:
			v = &leaseView{Req: e.Req, N: numberOf(e.Req), Full: e.Full, At: e.At, Left: e.Left}
			if r := s.reqs[e.Req]; r != nil {
				v.Who = r.seen.Who
				views[r.seen.App] = v
			}
		case v == nil || v.Req != e.Req:
		case e.Kind == freed:
			v.Over = e.At
			// A holder that is alive releases its lease early, or renews it.
			v.Expired = v.Left-(e.At-v.At)/1000 <= v.Full/10+leaseEvery.Milliseconds()
		default:
			v.At, v.Left = e.At, e.Left
			v.Times++
			v.Ticks = append(v.Ticks, e.At)
		}
	}
	for _, v := range views {
		v.Ticks = v.Ticks[max(0, len(v.Ticks)-ticksShown):]
	}
	return views
}

package loadtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// errTimeout is the cause of requests that were cut off after Plan.Timeout.
var errTimeout = errors.New("no reply within the timeout")

// An attack is a run of deductions, or its warm-up.
type attack struct {
	client Target
	plan   *Plan // filled
	order  Request
	mix    *mix
	run    string // part of the request ids
	base   int    // number of requests sent before the attack
	warm   bool   // whether this is the warm-up
	clock  Clock
}

// unsentPause is how long a worker of a closed loop waits after a request that could not be sent. Otherwise it would
// try a target that is down tens of thousands of times a second, and write a line of the history for each.
const unsentPause = 10 * time.Millisecond

// deduct is a call of the generator: it sends one request.
func (a *attack) deduct(_, flight context.Context, c Call, out chan<- Record) (pause time.Duration) {
	order, seq := a.order, a.base+c.N
	order.SKU, order.Quantity = a.mix.pick(c.N)
	order.RequestID = requestID(a.run, seq)
	r := Record{
		Seq: seq, Worker: c.Worker, RequestID: order.RequestID, Warm: a.warm,
		Strategy: a.plan.Strategy, Store: order.Store, SKU: order.SKU, Quantity: order.Quantity,
		PlannedAt: c.Due, SentAt: a.clock.Now(),
	}
	r.Reply = a.client.Deduct(flight, order)
	r.DoneAt = a.clock.Now()
	out <- r
	if r.Status == 0 && r.Outcome == Failed {
		return unsentPause
	}
	return r.Wait
}

// requestID returns the id of a request of a run. It is a UUID, so that a service cannot recognise the requests of a
// load test and treat them better than those of its customers.
func requestID(run string, seq int) string {
	sum := sha256.Sum256([]byte(run + " " + strconv.Itoa(seq)))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80 // version 4 (random), RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// warmUp returns the plan of p's warm-up: the same load for p.WarmUp, on separate SKUs. A changing rate stays at its
// first value.
func (p *Plan) warmUp() *Plan {
	w := *p
	w.SKU, w.Stock, w.Listed = p.SKU+"-warm", warmStock, nil
	w.Requests, w.Duration, w.At = 0, p.WarmUp, nil
	if w.Rate.To = w.Rate.From; p.Rate.From == 0 {
		w.Rate = Rate{p.Rate.To, p.Rate.To} // zero in a closed loop, or a rise from 0
	}
	return &w
}

// warmConnections returns the number of connections to open before the start: one for each worker of a closed loop. The
// number for an open loop depends on the service; this one suffices for replies that take 20 ms.
func (p *Plan) warmConnections() int {
	if !p.Open() {
		return p.Concurrency
	}
	return min(p.MaxInFlight, max(8, int(math.Ceil(max(p.Rate.From, p.Rate.To)/50))))
}

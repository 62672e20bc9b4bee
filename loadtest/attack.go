package loadtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// errTimeout is the cause of requests that were cut off after Plan.Timeout.
var errTimeout = errors.New("no reply within the timeout")

// An attack is a run, or its warm-up, in progress.
type attack struct {
	client Target
	plan   *Plan // filled
	order  Request
	mix    *mix
	run    string // part of the request ids
	base   int    // number of requests sent before the attack
	warm   bool   // whether this is the warm-up

	clock    Clock        // set before the first request
	taken    atomic.Int64 // requests taken by workers, or due
	dropped  atomic.Int64
	finished atomic.Bool // all planned requests have been sent or dropped
	out      chan<- Record
}

// begin starts the workers.
func (a *attack) begin(ctx, flight context.Context, out chan<- Record, workers *sync.WaitGroup) (start time.Time) {
	a.out = out
	if a.plan.Open() {
		a.clock = StartClock()
		workers.Go(func() { a.arrive(ctx, flight, workers) })
	} else {
		a.release(ctx, flight, workers)
	}
	return a.clock.start
}

// send sends the n-th request. due is the planned time, or zero if none was planned.
func (a *attack) send(ctx context.Context, n, worker int, due time.Time) Record {
	order := a.order
	order.Timeout = a.plan.Timeout
	order.SKU, order.Quantity = a.mix.pick(n)
	seq := a.base + n
	order.RequestID = requestID(a.run, seq)
	record := Record{
		Seq: seq, Worker: worker, RequestID: order.RequestID, Warm: a.warm,
		Strategy: a.plan.Strategy, Store: order.Store, SKU: order.SKU, Quantity: order.Quantity,
	}
	record.PlannedAt, record.SentAt = due, a.clock.Now()
	record.Reply = a.client.Deduct(ctx, order)
	record.DoneAt = a.clock.Now()
	return record
}

// requestID returns the id of a request of a run. It is a UUID, so that a service cannot recognise the requests of a
// load test and treat them better than those of its customers.
func requestID(run string, seq int) string {
	sum := sha256.Sum256([]byte(run + " " + strconv.Itoa(seq)))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80 // version 4 (random), RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// unsentPause is how long a worker of a closed loop waits after a request that could not be sent. Otherwise it would
// try a target that is down tens of thousands of times a second, and write a line of the history for each.
const unsentPause = 10 * time.Millisecond

// release starts the workers of a closed loop. When all are ready they start together.
func (a *attack) release(ctx, flight context.Context, workers *sync.WaitGroup) {
	gate := make(chan struct{})
	var ready sync.WaitGroup
	ready.Add(a.plan.Concurrency)
	for i := range a.plan.Concurrency {
		workers.Go(func() {
			ready.Done()
			<-gate
			a.work(ctx, flight, i+1)
		})
	}
	ready.Wait()
	a.clock = StartClock()
	close(gate)
}

// work sends requests one after the other until all are taken, the time is over, or ctx ends. A request in flight ends
// with flight.
func (a *attack) work(ctx, flight context.Context, worker int) {
	for !a.over(ctx) {
		n := int(a.taken.Add(1))
		if a.plan.Requests > 0 && n > a.plan.Requests {
			return // another worker took the last one
		}
		record := a.send(flight, n, worker, time.Time{})
		pause := record.Wait
		if record.Status == 0 && record.Outcome == Failed {
			pause = unsentPause
		}
		a.out <- record
		_ = Sleep(ctx, pause) // over checks ctx
	}
}

// over reports whether the attack sends no more requests.
func (a *attack) over(ctx context.Context) bool {
	switch {
	case a.plan.Requests > 0 && a.taken.Load() >= int64(a.plan.Requests):
	case ctx.Err() != nil:
		return true
	case a.plan.Duration == 0 || a.taken.Load() == 0 || a.clock.Elapsed() < a.plan.Duration:
		return false // every run sends at least one request
	}
	a.finished.Store(true)
	return true
}

// arrive runs an open loop: it sends each request when it is due. A request that is due while Plan.MaxInFlight are in
// flight is dropped, because waiting would turn the loop into a closed one. After a delay of the generator itself,
// arrive sends all overdue requests at once.
func (a *attack) arrive(ctx, flight context.Context, workers *sync.WaitGroup) {
	slots := newSlots(a.plan.MaxInFlight)
	for due := range a.plan.schedule() {
		if Sleep(ctx, due-a.clock.Elapsed()) != nil {
			return
		}
		n := int(a.taken.Add(1))
		slot, free := slots.take()
		if !free {
			a.dropped.Add(1)
			continue
		}
		workers.Go(func() {
			defer slots.give(slot)
			a.out <- a.send(flight, n, slot, a.clock.At(due))
		})
	}
	a.finished.Store(true)
}

// slots limits the requests of an open loop that are in flight. Records have the number of the slot in place of a
// worker's.
type slots struct {
	mu   sync.Mutex
	free []int // a stack
}

func newSlots(n int) *slots {
	l := &slots{free: make([]int, n)}
	for i := range l.free {
		l.free[i] = n - i
	}
	return l
}

// take returns the free slot that was returned last, so that few different ones are used. ok is false if all are taken.
func (l *slots) take() (slot int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		return 0, false
	}
	last := len(l.free) - 1
	slot, l.free = l.free[last], l.free[:last]
	return slot, true
}

func (l *slots) give(slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, slot)
}

// warmUp returns the plan of p's warm-up: the same load for p.WarmUp, on separate SKUs. A changing rate stays at its
// first value.
func (p *Plan) warmUp() *Plan {
	w := *p
	w.SKU, w.Stock, w.Listed = p.SKU+"-warm", warmStock, nil
	w.Requests, w.Duration = 0, p.WarmUp
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

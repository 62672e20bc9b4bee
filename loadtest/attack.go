package loadtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// errInterrupted is why a request was cut off after Grace.
var errInterrupted = errors.New("the run was interrupted")

// errTimeout is why a request was cut off after Plan.Timeout.
var errTimeout = errors.New("no reply within the timeout")

// An attack is one run, or its warm-up, under way.
type attack struct {
	client Target
	plan   *Plan // filled
	order  Request
	mix    *mix
	run    string // begins every request id
	base   int    // requests sent before it
	warm   bool   // it is the warm-up

	start    time.Time    // set before the first request
	taken    atomic.Int64 // requests taken by workers, or due
	dropped  atomic.Int64
	finished atomic.Bool // all that was planned has been sent or dropped
	out      chan Record
}

// fire sends the requests and calls each with what became of one, one at a time and in the order of completion. It calls tick now and
// then. It returns once no request is under way: when all are done, or, when ctx ends, after Grace at the latest.
func (a *attack) fire(ctx context.Context, each func(*Record), tick func()) {
	// Room for a round of replies, so that workers seldom wait for the one who writes them down.
	a.out = make(chan Record, 4*max(a.plan.Concurrency, a.plan.MaxInFlight))

	flight, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	done := make(chan struct{})
	var guard, workers sync.WaitGroup
	guard.Go(func() { cutAfterGrace(ctx, done, cut) })
	if a.plan.Open() {
		a.start = time.Now()
		workers.Go(func() { a.arrive(ctx, flight, &workers) })
	} else {
		a.release(ctx, flight, &workers)
	}
	guard.Go(func() { workers.Wait(); close(done); close(a.out) })

	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for open := true; open; {
		var record Record
		select {
		case record, open = <-a.out:
			if open {
				each(&record)
			}
		case <-ticker.C:
			tick()
		}
	}
	guard.Wait()
}

// cutAfterGrace ends the requests under way some time after ctx, unless they are done by then.
func cutAfterGrace(ctx context.Context, done <-chan struct{}, cut context.CancelCauseFunc) {
	select {
	case <-done:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(Grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		cut(errInterrupted)
	}
}

// send sends the n-th request. due is when it was to leave; zero: no time was planned.
func (a *attack) send(ctx context.Context, n, worker int, due time.Time) Record {
	ctx, cancel := context.WithTimeoutCause(ctx, a.plan.Timeout, errTimeout)
	defer cancel()
	order := a.order
	order.SKU, order.Quantity = a.mix.pick(n)
	seq := a.base + n
	order.RequestID = fmt.Sprintf("%s-%d", a.run, seq)
	record := Record{
		Seq: seq, Worker: worker, RequestID: order.RequestID, Warm: a.warm,
		Strategy: a.plan.Strategy, Store: order.Store, SKU: order.SKU, Quantity: order.Quantity,
	}
	record.PlannedAt, record.SentAt = due, a.now()
	record.Reply = a.client.Deduct(ctx, order)
	record.DoneAt = a.now()
	return record
}

// now is the wall clock of the start plus monotonic time.
func (a *attack) now() time.Time { return a.at(time.Since(a.start)) }

func (a *attack) at(elapsed time.Duration) time.Time { return a.start.Round(0).Add(elapsed).UTC() }

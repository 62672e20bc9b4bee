package loadtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// errInterrupted is why a request was cut off after Grace.
var errInterrupted = errors.New("the run was interrupted")

// errTimeout is why a request was cut off after Plan.Timeout.
var errTimeout = errors.New("no reply within the timeout")

// An attack is one closed loop under way.
type attack struct {
	client *Client
	plan   Plan // filled
	order  Request
	run    string // begins every request id

	start time.Time // set before the gate opens
	gate  chan struct{}
	next  atomic.Int64
	out   chan Record
}

// fire sends the requests and calls each with what became of one, one at a time and in the order of completion. It calls tick now and
// then. It returns once no request is under way: when all are done, or, when ctx ends, after Grace at the latest.
func (a *attack) fire(ctx context.Context, each func(Record), tick func()) {
	a.gate = make(chan struct{})
	// Room for a round of replies, so that workers seldom wait for the one who writes them down.
	a.out = make(chan Record, 4*a.plan.Concurrency)

	flight, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	done := make(chan struct{})
	var guard sync.WaitGroup
	guard.Go(func() { cutAfterGrace(ctx, done, cut) })

	var workers, ready sync.WaitGroup
	ready.Add(a.plan.Concurrency)
	for id := range a.plan.Concurrency {
		workers.Go(func() {
			ready.Done()
			<-a.gate
			a.work(ctx, flight, id+1)
		})
	}
	ready.Wait()
	a.start = time.Now()
	close(a.gate)

	guard.Go(func() { workers.Wait(); close(done); close(a.out) })
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for open := true; open; {
		var record Record
		select {
		case record, open = <-a.out:
			if open {
				each(record)
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

// work sends requests one after the other until all are taken or ctx ends. They themselves end with flight.
func (a *attack) work(ctx, flight context.Context, id int) {
	for ctx.Err() == nil {
		seq := a.next.Add(1)
		if seq > int64(a.plan.Requests) {
			return
		}
		a.out <- a.send(flight, int(seq), id)
	}
}

func (a *attack) send(ctx context.Context, seq, worker int) Record {
	ctx, cancel := context.WithTimeoutCause(ctx, a.plan.Timeout, errTimeout)
	defer cancel()
	order := a.order
	order.RequestID = fmt.Sprintf("%s-%d", a.run, seq)
	record := Record{
		Seq: seq, Worker: worker, RequestID: order.RequestID,
		Strategy: a.plan.Strategy, Store: order.Store, SKU: order.SKU, Quantity: order.Quantity,
	}
	record.SentAt = a.now()
	record.Reply = a.client.Deduct(ctx, order)
	record.DoneAt = a.now()
	return record
}

// now is the wall clock of the start plus monotonic time.
func (a *attack) now() time.Time { return a.start.Round(0).Add(time.Since(a.start)).UTC() }

// warm opens n connections: the replies are held until all have come, so that no connection serves two of them. A failure is no
// matter here, the run itself will meet it.
func (c *Client) warm(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var workers, arrived sync.WaitGroup
	arrived.Add(n)
	for range n {
		workers.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/livez", nil)
			if err != nil {
				arrived.Done()
				return
			}
			res, err := c.http.Do(req)
			arrived.Done()
			if err != nil {
				return
			}
			arrived.Wait()
			_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxBody))
			res.Body.Close()
		})
	}
	workers.Wait()
}

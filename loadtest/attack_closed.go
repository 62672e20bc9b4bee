package loadtest

import (
	"context"
	"sync"
	"time"
)

// unsentPause is how long a worker of a closed loop rests after a request that could not be sent. Without it a target that is down would be
// tried tens of thousands of times a second, each for a line of the history.
const unsentPause = 10 * time.Millisecond

// release starts the workers of a closed loop. All are ready before the first request, and then start at the same moment, or one after the
// other within the ramp-up.
func (a *attack) release(ctx, flight context.Context, workers *sync.WaitGroup) {
	gate := make(chan struct{})
	var ready sync.WaitGroup
	ready.Add(a.plan.Concurrency)
	for i := range a.plan.Concurrency {
		workers.Go(func() {
			ready.Done()
			<-gate
			if Sleep(ctx, a.plan.RampUp*time.Duration(i)/time.Duration(a.plan.Concurrency)) == nil {
				a.work(ctx, flight, i+1)
			}
		})
	}
	ready.Wait()
	a.start = time.Now()
	close(gate)
}

// work sends requests one after the other until all are taken, the time is over or ctx ends. They themselves end with flight.
func (a *attack) work(ctx, flight context.Context, worker int) {
	for !a.over(ctx) {
		n := int(a.taken.Add(1))
		if a.plan.Requests > 0 && n > a.plan.Requests {
			return // another took the last one meanwhile
		}
		record := a.send(flight, n, worker, time.Time{})
		unsent := record.Status == 0 && record.Outcome == Failed
		a.out <- record
		if unsent {
			_ = Sleep(ctx, unsentPause) // over looks at ctx
		}
	}
}

// over reports whether no more requests are to be sent.
func (a *attack) over(ctx context.Context) bool {
	switch {
	case a.plan.Requests > 0 && a.taken.Load() >= int64(a.plan.Requests):
	case ctx.Err() != nil:
		return true
	case a.plan.Duration == 0 || a.taken.Load() == 0 || time.Since(a.start) < a.plan.Duration:
		return false // a run of no request at all would show nothing
	}
	a.finished.Store(true)
	return true
}

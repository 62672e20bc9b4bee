package loadtest

import (
	"context"
	"sync"
	"time"
)

// arrive is an open loop: it sends each request when it is due. One that is due while Plan.MaxInFlight are under way is dropped, and not
// made up for: to wait would turn the loop into a closed one. If the generator itself was kept from running, it sends at once what fell
// due meanwhile, late.
func (a *attack) arrive(ctx, flight context.Context, workers *sync.WaitGroup) {
	lanes := newLanes(a.plan.MaxInFlight)
	for due := range a.plan.schedule() {
		if Sleep(ctx, due-time.Since(a.start)) != nil {
			return
		}
		n := int(a.taken.Add(1))
		lane, free := lanes.take()
		if !free {
			a.dropped.Add(1)
			continue
		}
		workers.Go(func() {
			defer lanes.give(lane)
			a.out <- a.send(flight, n, lane, a.at(due))
		})
	}
	a.finished.Store(true)
}

// lanes are the numbers of the requests that can be under way: what workers are to a closed loop.
type lanes struct {
	mu   sync.Mutex
	free []int // the last one is the next
}

func newLanes(n int) *lanes {
	l := &lanes{free: make([]int, n)}
	for i := range l.free {
		l.free[i] = n - i
	}
	return l
}

// take returns the lane that was given back last, so that few are in use, or false if all are.
func (l *lanes) take() (lane int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) == 0 {
		return 0, false
	}
	last := len(l.free) - 1
	lane, l.free = l.free[last], l.free[:last]
	return lane, true
}

func (l *lanes) give(lane int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, lane)
}

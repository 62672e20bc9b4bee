package loadtest

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// errInterrupted is the cause of requests that were cut off after Grace.
var errInterrupted = errors.New("the run was interrupted")

// A Call is one thing that a worker does: it sends a request, or makes a visit of several requests.
type Call struct {
	N      int       // from 1
	Worker int       // from 1; in an open loop, the number of a slot
	Due    time.Time // in an open loop: when it was to be made
}

// A Generator makes the calls of a load, and collects a record of type R of each request. Nothing else sends a load:
// loads differ in what a call sends, in what is recorded of it, and in the judge.
type Generator[R any] struct {
	Plan  *Plan // filled; only its loop, its end and its commands matter here
	Clock Clock // of the records
	// Call makes a call, and puts the record of each request into out. A call of several requests ends with ctx, and a
	// request in flight ends with flight. The worker of a closed loop pauses before its next call.
	Call func(ctx, flight context.Context, c Call, out chan<- R) (pause time.Duration)
	Each func(*R) // is called with every record, in the order of completion
	Tick func()   // is called five times a second, and never while Each is

	calls   atomic.Int64 // begun or due
	dropped atomic.Int64
}

// Run makes the calls of the plan, and executes its commands meanwhile, until all calls are made, the time is over, or
// ctx ends. It returns what became of the commands when no request is in flight: after ctx has ended, that is after
// Grace at the latest.
func (g *Generator[R]) Run(ctx context.Context) (ran []Ran) {
	out := make(chan R, 4*max(g.Plan.Concurrency, g.Plan.MaxInFlight)) // a few rounds, so that workers seldom wait
	done := make(chan struct{})
	flight, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	running, stop := context.WithCancel(ctx)
	defer stop()
	call := func(c Call) time.Duration { return g.Call(ctx, flight, c, out) }
	var guard, workers sync.WaitGroup
	guard.Go(func() { cutAfterGrace(ctx, done, cut) })
	if g.Plan.Open() {
		workers.Go(func() { g.open(ctx, call, &workers) })
	} else {
		g.closed(ctx, call, &workers)
	}
	guard.Go(func() { ran = RunCommands(running, g.Clock.start, g.Plan.At, g.Plan.Log) })
	guard.Go(func() { workers.Wait(); stop(); close(done); close(out) })

	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for open := true; open; {
		var record R
		select {
		case record, open = <-out:
			if open {
				g.Each(&record)
			}
		case <-ticker.C:
			g.Tick()
		}
	}
	guard.Wait()
	return ran
}

// cutAfterGrace cuts off the requests in flight if they have not ended within Grace after ctx has.
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

// closed starts the workers of a closed loop. When all are ready they begin together.
func (g *Generator[R]) closed(ctx context.Context, call func(Call) time.Duration, workers *sync.WaitGroup) {
	gate := make(chan struct{})
	var ready sync.WaitGroup
	ready.Add(g.Plan.Concurrency)
	for i := range g.Plan.Concurrency {
		workers.Go(func() {
			ready.Done()
			<-gate
			for n := g.next(ctx); n > 0; n = g.next(ctx) {
				_ = Sleep(ctx, call(Call{N: n, Worker: i + 1})) // next checks ctx
			}
		})
	}
	ready.Wait()
	close(gate)
}

// next returns the number of the next call of a closed loop, or 0 if there is none. Every run makes at least one.
func (g *Generator[R]) next(ctx context.Context) int {
	n := int(g.calls.Add(1))
	over := g.Plan.Duration > 0 && n > 1 && g.Clock.Elapsed() >= g.Plan.Duration
	if ctx.Err() != nil || over || g.Plan.Requests > 0 && n > g.Plan.Requests {
		return 0
	}
	return n
}

// open runs an open loop: it makes each call when it is due. A call that is due while Plan.MaxInFlight are under way is
// dropped, because waiting would turn the loop into a closed one. After a delay of the generator itself, open makes all
// overdue calls at once.
func (g *Generator[R]) open(ctx context.Context, call func(Call) time.Duration, workers *sync.WaitGroup) {
	slots := newSlots(g.Plan.MaxInFlight)
	for due := range g.Plan.schedule() {
		if Sleep(ctx, due-g.Clock.Elapsed()) != nil {
			return
		}
		n := int(g.calls.Add(1))
		slot, free := slots.take()
		if !free {
			g.dropped.Add(1)
			continue
		}
		workers.Go(func() {
			defer slots.give(slot)
			call(Call{n, slot, g.Clock.At(due)})
		})
	}
}

// slots limits the calls of an open loop that are under way. Records have the number of the slot in place of a
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

// A Clock tells the times of a run: its start by the wall clock, plus the monotonic time since. Setting the wall clock
// during the run neither reorders them nor changes their distance.
type Clock struct{ start time.Time }

// StartClock returns a Clock of a run that starts now.
func StartClock() Clock { return Clock{time.Now()} }

// At returns the time that is so long after the start.
func (c Clock) At(elapsed time.Duration) time.Time { return c.start.Round(0).Add(elapsed).UTC() }

// Elapsed returns the time since the start.
func (c Clock) Elapsed() time.Duration { return time.Since(c.start) }

// Now returns the current time.
func (c Clock) Now() time.Time { return c.At(c.Elapsed()) }

package loadtest

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// errInterrupted is the cause of requests that were cut off after Grace.
var errInterrupted = errors.New("the run was interrupted")

// A Drive sends the requests of a load and collects their records of type R.
type Drive[R any] struct {
	// Begin starts the workers, and returns the start of the load. Workers send requests until ctx ends or the load is
	// over, and put the record of each into out. A request in flight ends with flight.
	Begin  func(ctx, flight context.Context, out chan<- R, workers *sync.WaitGroup) (start time.Time)
	Each   func(*R)  // is called with every record, in the order of completion
	Tick   func()    // is called five times a second, and never while Each is
	At     []Command // to execute meanwhile
	Log    io.Writer // of the commands; may be nil
	Buffer int       // records that may wait for Each, so that workers seldom wait
}

// Run returns what became of the commands when no request is in flight: when all are done or, if ctx ends, after Grace
// at the latest.
func (d *Drive[R]) Run(ctx context.Context) (ran []Ran) {
	out, done := make(chan R, d.Buffer), make(chan struct{})
	flight, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	running, stop := context.WithCancel(ctx)
	defer stop()
	var guard, workers sync.WaitGroup
	guard.Go(func() { cutAfterGrace(ctx, done, cut) })
	start := d.Begin(ctx, flight, out, &workers)
	guard.Go(func() { ran = RunCommands(running, start, d.At, d.Log) })
	guard.Go(func() { workers.Wait(); stop(); close(done); close(out) })

	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for open := true; open; {
		var record R
		select {
		case record, open = <-out:
			if open {
				d.Each(&record)
			}
		case <-ticker.C:
			d.Tick()
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

package lock

import (
	"context"
	"sync"
	"time"
)

// sweepEvery is the pause between tries. There are few such keys: those that were held or requested when the server
// stopped answering.
const sweepEvery = 200 * time.Millisecond

// A Sweeper is for drivers. It repeats, in the background, releases that the server did not answer.
type Sweeper struct {
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex // no goroutine is added while Close waits
	busy sync.WaitGroup
}

// NewSweeper makes a Sweeper. Close it.
func NewSweeper() *Sweeper {
	ctx, stop := context.WithCancel(context.Background())
	return &Sweeper{ctx: ctx, stop: stop}
}

// Add calls free until it returns true, or until the time until. It pauses 200 ms before each call, even the first,
// because the caller has just tried. Each call is limited by ReleaseTimeout. After Close, Add does nothing.
func (s *Sweeper) Add(until time.Time, free func(context.Context) (done bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.busy.Go(func() {
		for done := false; !done && time.Now().Before(until) && Sleep(s.ctx, sweepEvery) == nil; {
			ctx, cancel := context.WithTimeout(s.ctx, ReleaseTimeout)
			done = free(ctx)
			cancel()
		}
	})
}

// Close drops the remaining releases; their keys expire. It cancels calls of free that are under way, and waits for
// them.
func (s *Sweeper) Close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.busy.Wait()
}

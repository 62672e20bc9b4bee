package lock

import (
	"context"
	"sync"
	"time"
)

// sweepEvery is the pause between tries. Few keys are swept at a time: those that were held, or asked for, when the
// server went away.
const sweepEvery = 200 * time.Millisecond

// A Sweeper is for drivers: it gives back what could not be given back in time, because the server did not answer.
type Sweeper struct {
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex // none is added once Close waits
	busy sync.WaitGroup
}

// NewSweeper makes a Sweeper. Close it.
func NewSweeper() *Sweeper {
	ctx, stop := context.WithCancel(context.Background())
	return &Sweeper{ctx: ctx, stop: stop}
}

// Add calls free, each time after a pause of 200 ms and bounded by ReleaseTimeout, until it says that it is done,
// or until the lease has run out. There is a pause before the first call, too: the caller has just tried. After
// Close it does nothing.
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

// Close gives up: what is left runs out by itself. It ends the call that is under way, and waits for it.
func (s *Sweeper) Close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.busy.Wait()
}

package mysqllock

import (
	"context"
	"sync"
	"time"

	"example.com/stock/lock"
)

// A sweeper gives back what could not be given back in time, because the server did not answer.
type sweeper struct {
	ctx  context.Context
	stop context.CancelFunc

	mu   sync.Mutex // none is added once close waits
	busy sync.WaitGroup
}

// sweepEvery is the pause between tries. Few claims are swept at a time: those that were under way when the server went away.
const sweepEvery = 200 * time.Millisecond

func newSweeper() *sweeper {
	ctx, stop := context.WithCancel(context.Background())
	return &sweeper{ctx: ctx, stop: stop}
}

// add calls free until it says that it is done, or until the lease has run out.
func (s *sweeper) add(until time.Time, free func(context.Context) (done bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.busy.Go(func() {
		for done := false; !done && time.Now().Before(until) && sleep(s.ctx, sweepEvery); {
			ctx, cancel := context.WithTimeout(s.ctx, lock.ReleaseTimeout)
			done = free(ctx)
			cancel()
		}
	})
}

// close gives up: what is left runs out by itself.
func (s *sweeper) close() {
	s.mu.Lock()
	s.stop()
	s.mu.Unlock()
	s.busy.Wait()
}

package redislock

import (
	"context"
	"errors"
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

// sweepEvery is the pause between tries. Few claims are swept at a time: those that were held when the server went away.
const sweepEvery = 200 * time.Millisecond

func newSweeper() *sweeper {
	ctx, stop := context.WithCancel(context.Background())
	return &sweeper{ctx: ctx, stop: stop}
}

// add calls free until the server has answered, or its lease has run out at until.
func (s *sweeper) add(free func(context.Context) error, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.busy.Go(func() {
		for time.Now().Before(until) && sleep(s.ctx, sweepEvery) {
			ctx, cancel := context.WithTimeout(s.ctx, lock.ReleaseTimeout)
			err := free(ctx)
			cancel()
			if !errors.Is(err, lock.ErrDown) {
				return
			}
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

package redislock

import (
	"context"
	"errors"
	"time"

	"example.com/stock/lock"
)

// A sweeper is a lock.Sweeper of questions that are to be asked until the server answers.
type sweeper struct{ *lock.Sweeper }

func newSweeper() *sweeper { return &sweeper{lock.NewSweeper()} }

// add calls free until the server has answered, or its lease has run out at until.
func (s *sweeper) add(free func(context.Context) error, until time.Time) {
	s.Add(until, func(ctx context.Context) bool { return !errors.Is(free(ctx), lock.ErrDown) })
}

// close gives up: what is left runs out by itself.
func (s *sweeper) close() { s.Close() }

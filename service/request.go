package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// This file has what a request passes before it sells.

// underway counts the requests of one Service that wait or work. The zero value is ready.
type underway struct{ requests atomic.Int64 }

// enter counts a request. It fails with lock.ErrOverloaded if there are more than most; 0: no limit. The caller calls
// leave in any case. The limit exists because a waiting request costs memory for up to MaxWait, and locks do not
// limit their waiters.
func (u *underway) enter(most int) error {
	if n := u.requests.Add(1); most > 0 && n > int64(most) {
		return fmt.Errorf("%d requests wait or work here: %w", most, lock.ErrOverloaded)
	}
	return nil
}

// leave ends the count of a request.
func (u *underway) leave() { u.requests.Add(-1) }

// ready returns an error if one of needs cannot be used. data is nil, or one of needs.
func ready(ctx context.Context, data *DataCheck, needs ...Dependency) error {
	for _, need := range needs {
		err := need.Err()
		if errors.Is(err, ErrDataLost) {
			err = data.Look(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// limitWait returns a ctx that limits a wait. A limit of 0 means to try once; then work limits the try, because the
// server may not answer.
func limitWait(
	ctx context.Context, limit, work time.Duration,
) (wait context.Context, tryOnce bool, cancel context.CancelFunc) {
	if limit == 0 {
		silent := driver.NewDown("lock", "no-answer", "limit", work.String())
		wait, cancel = context.WithTimeoutCause(ctx, work, silent)
		return wait, true, cancel
	}
	wait, cancel = context.WithTimeout(ctx, limit)
	return wait, false, cancel
}

// call calls do, for at most work, if the server of the store is up and the store has its data. If data is nil, only
// the server is checked.
func call[T any](
	ctx context.Context, work time.Duration, server Dependency, data *DataCheck, do func(context.Context) (T, error),
) (out T, err error) {
	ctx, cancel := context.WithTimeout(ctx, work)
	defer cancel()
	if err := server.Err(); err != nil {
		return out, err
	}
	if data != nil {
		if err := data.Look(ctx); err != nil {
			return out, err
		}
	}
	out, err = do(ctx)
	return out, busy(err, server)
}

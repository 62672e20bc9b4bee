package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// An admission counts the requests of one Service that wait or work, and knows their idempotency keys. The zero value
// is ready.
type admission struct {
	requests atomic.Int64
	keys     sync.Map // of Key.ID
}

// enter admits a request, unless there are more than most (0: no limit), or its key is that of a request under way. The
// limit exists because a waiting request costs memory for up to MaxWait, and locks do not limit their waiters.
func (a *admission) enter(key Key, most int) error {
	n := a.requests.Add(1)
	if most > 0 && n > int64(most) {
		a.requests.Add(-1)
		return fmt.Errorf("%d requests wait or work here: %w", most, lock.ErrOverloaded)
	}
	if key == (Key{}) {
		return nil
	}
	if _, there := a.keys.LoadOrStore(key.ID, nil); there {
		a.requests.Add(-1)
		return ErrKeyInFlight
	}
	return nil
}

// leave ends a request that was admitted.
func (a *admission) leave(key Key) {
	a.requests.Add(-1)
	if key != (Key{}) {
		a.keys.Delete(key.ID)
	}
}

// ready returns an error if a server that the deduction needs is down, or if the store has lost its data.
func (d *deduction) ready(ctx context.Context) error {
	for _, need := range d.needs {
		err := need.Err()
		if errors.Is(err, ErrDataLost) {
			err = d.store.Data.Look(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// wait returns the Wait of the deduction. It ends with ctx, when a server that the deduction needs goes down, and after
// limit. A limit of 0 means to try once; then work limits the try, because the server may not answer.
func (d *deduction) wait(ctx context.Context, limit, work time.Duration) Wait {
	until, needs := time.Now().Add(cmp.Or(limit, work)), d.needs
	return func() (context.Context, context.CancelFunc) {
		var silent error // if nil, the cause of the end is context.DeadlineExceeded
		if limit == 0 {
			silent = driver.NewDown("lock", "no-answer", "limit", work.String())
		}
		up, done := While(ctx, needs...)
		wait, cancel := context.WithDeadlineCause(up, until, silent)
		return wait, func() { cancel(); done() }
	}
}

// limit returns how long the deduction waits for the lock; 0: it tries once.
func (d *deduction) limit(byDefault time.Duration) time.Duration {
	switch {
	case d.Wait != nil:
		return *d.Wait
	case !d.strategy.Blocking:
		return 0
	}
	return byDefault
}

package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
)

// Who came first here and waits for a short time only does not take the place of this process with him: those behind
// him come before another process that came after him.
func TestHandOverKeepsThePlaceOfAProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{}
		here, there := lock.HandOver(r, lock.Bound{}), lock.HandOver(r, lock.Bound{})
		elsewhere, _ := r.Acquire(t.Context(), "k", lock.Options{})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()

		var order []string
		var all sync.WaitGroup
		all.Go(func() {
			_, err := here.Acquire(short, "k", lock.Options{})
			if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("who waited for a short time: %v", err)
			}
		})
		synctest.Wait()
		for _, who := range []string{"here", "there"} {
			l := map[string]lock.Locker{"here": here, "there": there}[who]
			all.Go(func() {
				hold(t, l, func(*lock.Lease) { order = append(order, who); time.Sleep(time.Second) })
			})
			synctest.Wait()
		}
		time.Sleep(2 * time.Second)
		_ = elsewhere.Release()
		all.Wait()
		if len(order) != 2 || order[0] != "here" {
			t.Errorf("served %v; the one behind who gave up lost the place of the process", order)
		}
	})
}

// asking is what an Acquire was called with.
type asking struct {
	context.Context
	owner string
}

// A stubborn locker shows what it was asked with, and answers when it is told to.
type stubborn struct {
	asked  chan asking
	answer chan error
}

func (s *stubborn) FenceRange() uint64 { return 8 }

func (s *stubborn) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	s.asked <- asking{ctx, o.Owner}
	select {
	case <-ctx.Done():
		return nil, errors.Join(errLeft, context.Cause(ctx))
	case err := <-s.answer:
		if err != nil {
			return nil, err
		}
		lease, _ := lock.NewLease(key, 1, func(context.Context) error { return nil })
		return lease, nil
	}
}

var errLeft = errors.New("the place in the queue was given up")

// The inner lock is asked until nobody waits any more: with the latest deadline, in the name of the first, and
// whoever is the last to go ends it with the reason for which he goes.
func TestHandOverAsksUntilNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{make(chan asking, 8), make(chan error)}
		l := lock.HandOver(s, lock.Bound{})
		down := errors.New("backend down")
		errs := make(map[string]error)
		var mu sync.Mutex
		var all sync.WaitGroup
		come := func(ctx context.Context, who string) {
			all.Go(func() {
				_, err := l.Acquire(ctx, "k", lock.Options{Owner: who})
				mu.Lock()
				errs[who] = err
				mu.Unlock()
			})
			synctest.Wait()
		}
		began := time.Now()
		first, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		second, leave := context.WithCancelCause(t.Context())
		defer leave(nil)
		second, stop = context.WithTimeout(second, time.Minute)
		defer stop()
		come(first, "first")
		asked := <-s.asked
		if at, limited := asked.Deadline(); !limited || at.Sub(began) != time.Second || asked.owner != "first" {
			t.Errorf("asked by %q until %v", asked.owner, at.Sub(began))
		}
		come(second, "second")
		if at, _ := asked.Deadline(); at.Sub(began) != time.Minute {
			t.Errorf("with a second waiter: until %v", at.Sub(began))
		}
		time.Sleep(2 * time.Second)
		if asked.Err() != nil {
			t.Error("the first one's end ended it for the second")
		}
		leave(down)
		all.Wait()
		if !errors.Is(errs["first"], lock.ErrHeld) || !errors.Is(errs["first"], context.DeadlineExceeded) {
			t.Errorf("the first was told %v", errs["first"])
		}
		if !errors.Is(errs["second"], errLeft) || !errors.Is(errs["second"], down) {
			t.Errorf("the second was told %v; want what the lock said, with the cause of his end", errs["second"])
		}

		// A failure goes to the first alone; then the lock is asked for the next.
		come(t.Context(), "third")
		come(t.Context(), "fourth")
		<-s.asked
		s.answer <- down
		if next := <-s.asked; next.owner != "fourth" {
			t.Errorf("then asked by %q", next.owner)
		}
		if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("try once behind a waiter: %v", err)
		}
		s.answer <- nil
		all.Wait()
		if !errors.Is(errs["third"], down) || errs["fourth"] != nil {
			t.Errorf("third %v, fourth %v", errs["third"], errs["fourth"])
		}
	})
}

// Whoever comes when the time of all the others is over is served by a new question, not by one whose deadline has
// passed.
func TestHandOverOfAWaiterWhoComesAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stubborn{make(chan asking, 8), make(chan error)}
		l := lock.HandOver(s, lock.Bound{})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			switch lease, err := l.Acquire(short, "k", lock.Options{}); {
			case err == nil: // it came at the same moment
				_ = lease.Release()
			case !errors.Is(err, context.DeadlineExceeded):
				t.Errorf("the first was told %v", err)
			}
		})
		all.Go(func() {
			time.Sleep(time.Second) // to the nanosecond
			lease, err := l.Acquire(t.Context(), "k", lock.Options{})
			if err != nil {
				t.Error(err)
				return
			}
			_ = lease.Release()
		})
		<-s.asked
		if next := <-s.asked; next.Err() != nil {
			t.Errorf("asked with a ctx that has ended: %v", context.Cause(next))
		}
		s.answer <- nil
		all.Wait()
	})
}

// A lease that was abandoned is handed on to nobody in the process either, and its server side stays.
func TestHandOverOfAnAbandonedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{linger: time.Minute}
		l := lock.HandOver(r, lock.Bound{})
		began := time.Now()
		err := lock.Do(t.Context(), l, "k", lock.Options{}, func(context.Context, lock.Fence) error {
			go hold(t, l, func(lease *lock.Lease) {
				if waited := time.Since(began); waited != time.Minute || lease.Fence() != 16 {
					t.Errorf("the next one here came after %v, with fence %d; want a lease of its own after a minute",
						waited, lease.Fence())
				}
			})
			synctest.Wait()
			return lock.ErrOutcomeUnknown
		})
		if !errors.Is(err, lock.ErrOutcomeUnknown) || errors.Is(err, lock.ErrLost) {
			t.Errorf("err = %v", err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
	})
}

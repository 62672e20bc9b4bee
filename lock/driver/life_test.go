package driver_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// calls are when a life called, and how its calls ended.
type calls chan time.Time

func (c calls) free(done func(n int) bool) func(context.Context) bool {
	return func(context.Context) bool {
		c <- time.Now()
		return done(len(c))
	}
}

func TestLifeTriesUntilDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := driver.NewLife()
		defer s.Close()
		made := make(calls, 1000)
		s.Repeat(time.Now().Add(time.Hour), made.free(func(n int) bool { return n == 3 }))
		synctest.Wait()
		if len(made) != 0 {
			t.Error("it tried at once: whoever adds has just tried")
		}
		time.Sleep(time.Minute)
		if len(made) != 3 {
			t.Errorf("%d calls, want 3: it is done then", len(made))
		}
	})
}

func TestLifeGivesUpWhenTheLeaseHasRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := driver.NewLife()
		defer s.Close()
		made := make(calls, 1000)
		until := time.Now().Add(3 * time.Second)
		s.Repeat(until, made.free(func(int) bool { return false }))
		time.Sleep(time.Hour)
		n := len(made)
		var last time.Time
		for range n {
			last = <-made
		}
		if n < 10 || last.After(until.Add(lock.ReleaseTimeout)) {
			t.Errorf("%d calls, the last %v after the lease's end", n, last.Sub(until))
		}
	})
}

// A server that hangs is asked again: one call is bounded. Close ends the call that is under way and waits for it.
func TestLifeIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := driver.NewLife()
		ended := make(chan error, 1000)
		s.Repeat(time.Now().Add(time.Hour), func(ctx context.Context) bool {
			<-ctx.Done()
			ended <- ctx.Err()
			return false
		})
		time.Sleep(2 * lock.ReleaseTimeout)
		if len(ended) != 1 || !errors.Is(<-ended, context.DeadlineExceeded) {
			t.Error("no call timed out")
		}
		closed := time.Now()
		s.Close()
		if took := time.Since(closed); took != 0 || len(ended) != 1 || !errors.Is(<-ended, context.Canceled) {
			t.Errorf("Close took %v, want that it cancels the call and waits for its end", took)
		}
		s.Repeat(time.Now().Add(time.Hour), func(context.Context) bool { t.Error("added after Close"); return true })
		time.Sleep(time.Minute)
	})
}

package lock

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers Timers
		rang := make(chan time.Duration, 8)
		began := time.Now()
		after := func(d time.Duration) *sharedTimer {
			return timers.afterFunc(began.Add(d), func() { rang <- time.Since(began) })
		}
		first := after(time.Second) // sets the timer of the runtime, which stays set
		second := after(3 * time.Second)
		if !first.stop() || first.stop() {
			t.Error("a timer is stopped once")
		}
		third, earlier := after(2*time.Second), after(time.Millisecond)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if third.stop() || earlier.stop() {
			t.Error("a timer that has rung is stopped")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		after(-time.Second) // is due at once
		synctest.Wait()
		for _, want := range []time.Duration{time.Millisecond, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			if got := <-rang; got != want {
				t.Errorf("rang after %v, want %v", got, want)
			}
		}
		if second.stop() || len(rang) > 0 || len(timers.queue) > 0 || !timers.set.IsZero() {
			t.Error("something is left")
		}
	})
}

func TestWithTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timers Timers
		ctx, cancel := timers.withTimeout(time.Second)
		ended, cancelEnded := timers.withTimeout(time.Second)
		if until, ok := ctx.Deadline(); !ok || time.Until(until) != time.Second || ctx.Err() != nil {
			t.Errorf("deadline in %v, error %v", time.Until(until), ctx.Err())
		}
		cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(ended.Err(), context.DeadlineExceeded) {
			t.Errorf("ended with %v and %v", ctx.Err(), ended.Err())
		}
		cancelEnded()
	})
}

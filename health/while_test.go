package health_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/health"
	"example.com/stock/lock"
)

// What the check says in a DownError is meant to be shown, and a change of the reason is a change.
func TestReasons(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, isUp)
		for _, reason := range []string{"the schema is missing", "the schema is missing", "its disk is full"} {
			s.set(fmt.Errorf("check schema: %w", &lock.DownError{Server: "redis", Reason: reason}), false)
			pass(health.Interval)
			down(t, b, reason)
		}
		s.set(errRefused, false)
		pass(health.Interval)
		l.is(t, "redis: redis is down: the schema is missing", "redis: redis is down: its disk is full", isRefused)
	})
}

// While ends with the reason when the backend goes down, and is as good as new when it is up again.
func TestWhile(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		before, cancelBefore := b.While(t.Context())
		defer cancelBefore()
		left, cancelLeft := b.While(t.Context())
		cancelLeft()
		if before.Err() != nil || !errors.Is(left.Err(), context.Canceled) {
			t.Fatalf("up: %v; given up: %v", before.Err(), left.Err())
		}
		s.set(errRefused, false)
		pass(health.Interval)
		if cause := context.Cause(before); before.Err() == nil || cause != b.Err() {
			t.Errorf("ended because of %v, want Err(), which is %v", cause, b.Err())
		}
		if cause := context.Cause(left); errors.Is(cause, lock.ErrDown) {
			t.Errorf("one that was given up before ended because of %v", cause)
		}
		for _, why := range []error{errRefused, &lock.DownError{Server: "redis", Reason: "its disk is full"}} {
			s.set(why, false)
			pass(health.Interval)
			during, cancelDuring := b.While(t.Context())
			if cause := context.Cause(during); cause == nil || cause != b.Err() {
				t.Errorf("made while it is down: ended because of %v, want Err(), which is %v", cause, b.Err())
			}
			cancelDuring()
		}
		s.set(nil, false)
		pass(health.Interval)
		after, cancelAfter := b.While(t.Context())
		defer cancelAfter()
		if after.Err() != nil {
			t.Errorf("up again: ended because of %v", context.Cause(after))
		}
		if before.Err() == nil {
			t.Error("what had ended lives again")
		}
		s.set(errRefused, false)
		pass(health.Interval)
		if cause := context.Cause(after); cause != b.Err() {
			t.Errorf("the second outage: ended because of %v, want %v", cause, b.Err())
		}
	})
}

// While keeps what its parent has: values, and an end with a cause.
func TestWhileIsOfItsParent(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, _ *log, _ func(time.Duration)) {
		type key struct{}
		reason := errors.New("the client closed the connection")
		parent, leave := context.WithCancelCause(context.WithValue(t.Context(), key{}, 7))
		ctx, cancel := b.While(parent)
		defer cancel()
		leave(reason)
		if cause := context.Cause(ctx); cause != reason || ctx.Value(key{}) != 7 {
			t.Errorf("cause %v, value %v", cause, ctx.Value(key{}))
		}
	})
}

func TestAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := health.Absent("redis", "it is not configured: set redis.addrs"), &log{}
		if !b.IsAbsent() {
			t.Error("it does not say so")
		}
		b.Run(t.Context(), l.firstDone, l.changed) // returns at once: there is nothing to ask
		if l.first != 1 {
			t.Errorf("first was called %d times, want once", l.first)
		}
		l.is(t)
		down(t, b, "it is not configured: set redis.addrs")
		ctx, cancel := b.While(t.Context())
		defer cancel()
		if cause := context.Cause(ctx); cause != b.Err() {
			t.Errorf("While ended because of %v, want Err(), which is %v", cause, b.Err())
		}
	})
}

// The end of the service says nothing of the backend: a check that is cut off is no failure.
func TestStopIsNoOutage(t *testing.T) {
	s := &server{}
	synctest.Test(t, func(t *testing.T) {
		b, l := health.New("redis", s.check), &log{}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { b.Run(ctx, l.firstDone, l.changed) })
		synctest.Wait()
		l.is(t, isUp)
		s.set(nil, true)
		time.Sleep(health.Interval + health.Timeout/2)
		cancel()
		run.Wait()
		l.is(t)
		if err := b.Err(); err != nil {
			t.Errorf("Err() = %v, want up", err)
		}
	})
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 30 * time.Millisecond
		b := health.New("redis", func(context.Context) error {
			time.Sleep(took)
			return nil
		})
		if now, changed := b.Probe(t.Context()); now != nil || !changed {
			t.Errorf("Probe() = %v, %t; want a change to up", now, changed)
		}
		if b.Latency() != took {
			t.Errorf("Latency() = %v, want %v", b.Latency(), took)
		}
		if now, changed := b.Probe(t.Context()); now != nil || changed {
			t.Errorf("Probe() again = %v, %t; want no change", now, changed)
		}
	})
}

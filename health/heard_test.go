package health_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.com/stock/health"
)

// A probe that gets no answer in time is no outage while others get theirs, and is one when nobody does. What is
// refused is refused.
func TestHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, answers := &server{}, uint64(0)
		busy := true
		b := health.New("redis", health.Heard(func(ctx context.Context) error {
			if busy {
				answers++
			}
			return s.check(ctx)
		}, func() uint64 { return answers }))
		probe := func(down bool) {
			t.Helper()
			if now, _ := b.Probe(t.Context()); (now != nil) != down {
				t.Errorf("Probe() = %v, want down: %t", now, down)
			}
		}
		probe(false)
		s.set(nil, true)
		for range 2 * health.Failures {
			probe(false)
		}
		busy = false
		for range health.Failures - 1 {
			probe(false)
		}
		probe(true)
		busy = true
		s.set(errRefused, false)
		probe(true)
	})
}

// A client whose time is over may say so in words of its own: a connection that it has closed itself is a bad one.
func TestTheTimeIsOverInAnyWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := false
		b := health.New("mysql", func(ctx context.Context) error {
			if hangs {
				<-ctx.Done()
				return errors.New("driver: bad connection")
			}
			return nil
		})
		if now, _ := b.Probe(t.Context()); now != nil {
			t.Fatal(now)
		}
		hangs = true
		if now, _ := b.Probe(t.Context()); now != nil {
			t.Errorf("after one: %v, want up", now)
		}
		time.Sleep(health.Interval)
		if now, _ := b.Probe(t.Context()); now == nil {
			t.Error("after two: up")
		}
		down(t, b, "no answer within 800ms")
	})
}

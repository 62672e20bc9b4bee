package health_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"example.com/stock/app/health"
	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// errRefused is what a client says of a server that is not there. It holds what must not be shown.
var errRefused = errors.New("dial tcp 10.0.0.7:3306: user stock:s3cret: connection refused")

const (
	isUp      = "<nil>"
	isRefused = "redis is down: unreachable"
	isSilent  = "redis is down: no-answer (limit=800ms)"
)

// What becomes of a backend by one answer after the other: what Probe tells of it, or "" if that is no news.
func TestWhatAnswersMean(t *testing.T) {
	half := &health.ImpairedError{Reason: "half of it is gone"}
	down := func(reason string) error { return &driver.DownError{Server: "redis", Reason: reason} }
	wrapped := fmt.Errorf("check schema: %w", down("the schema is missing"))
	slow := context.DeadlineExceeded
	for _, row := range []struct {
		name    string
		answers []error
		told    []string
	}{
		{"an error at once", []error{nil, nil, errRefused, errRefused, nil}, []string{isUp, "", isRefused, "", isUp}},
		{"refused from the start", []error{errRefused, errRefused, nil}, []string{isRefused, "", isUp}},
		{"silent from the start: it never was up", []error{slow, slow, nil}, []string{isSilent, "", isUp}},
		{"slow, and good in between", []error{nil, slow, nil, slow, nil}, []string{isUp, "", "", "", ""}},
		{"slow Failures times", []error{nil, slow, slow, slow, nil}, []string{isUp, "", isSilent, "", isUp}},
		{"in words of package net", []error{
			nil, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, fmt.Errorf("ping: %w", slow),
		}, []string{isUp, "", isSilent}},
		{"a reason that may be shown", []error{nil, wrapped, wrapped, down("its disk is full")}, []string{
			isUp, "redis is down: the schema is missing", "", "redis is down: its disk is full",
		}},
		{"a countdown is no news", []error{down("it counts in 10s"), down("it counts in 9s"), errRefused}, []string{
			"redis is down: it counts in 10s", "", isRefused,
		}},
		{"up, but not for everything", []error{nil, half, half, errRefused, half, nil}, []string{
			isUp, half.Reason, "", isRefused, half.Reason, isUp,
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var answer error
			b := health.New("redis", func(context.Context) error { return answer })
			for i := range row.answers {
				answer = row.answers[i]
				began := b.Up()
				now, changed := b.Probe(t.Context())
				if told := fmt.Sprint(now); changed != (row.told[i] != "") || changed && told != row.told[i] {
					t.Errorf("answer %d: %s (news: %t), want %q", i, told, changed, row.told[i])
				}
				is(t, b, began, answer == error(half))
			}
		})
	}
}

// is fails if the views of a backend contradict each other. What began before is over if it is down now.
func is(t *testing.T, b *health.Backend, began context.Context, impaired bool) {
	t.Helper()
	down, up := b.Err(), b.Up()
	if (down == nil) != (up.Err() == nil) || (b.Warning() != nil) != impaired || impaired && down != nil {
		t.Errorf("down %v, up %v, warning %v", down, up.Err(), b.Warning())
	}
	if down == nil {
		return
	}
	if !errors.Is(down, lock.ErrDown) || strings.Contains(down.Error(), "s3cret") {
		t.Errorf("%v gives away what the client said, or is no DownError", down)
	}
	if !errors.Is(context.Cause(began), lock.ErrDown) {
		t.Errorf("what began before: ended because of %v", context.Cause(began))
	}
}

// Checks are an Interval apart and each has Timeout, whatever the client says then. The end of the service in the
// middle of one says nothing.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked, first atomic.Int32
		var hangs atomic.Bool
		told := make(chan string, 3)
		b := health.New("redis", func(ctx context.Context) error {
			asked.Add(1)
			if hangs.Load() {
				<-ctx.Done()
				return errors.New("driver: bad connection") // it has closed the connection itself
			}
			time.Sleep(time.Millisecond)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() {
			b.Run(ctx, func() { first.Add(1) }, func(name string, down error) {
				told <- fmt.Sprint(name, " ", down)
			})
		})
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(10*health.Interval + health.Interval/2)
		if asked.Load() != 11 || first.Load() != 1 || b.Latency() != time.Millisecond {
			t.Errorf("asked %d times, first called %d times, latency %v", asked.Load(), first.Load(), b.Latency())
		}
		hangs.Store(true)
		pass(health.Interval + health.Timeout) // one is late
		if b.Err() != nil {
			t.Errorf("after one that was late: %v", b.Err())
		}
		pass(health.Timeout)
		if up, down := <-told, <-told; up != "redis <nil>" || down != "redis "+isSilent {
			t.Errorf("told %q and %q, want up and then silent", up, down)
		}
		hangs.Store(false)
		pass(health.Timeout + health.Interval)
		hangs.Store(true)
		pass(health.Interval + health.Timeout + health.Timeout/2)
		cancel() // in the middle of the one that would be the last to fail
		run.Wait()
		if b.Err() != nil || len(told) != 1 {
			t.Errorf("stopped: %v, told %d times that it is up again", b.Err(), len(told))
		}
	})
}

func TestAbsent(t *testing.T) {
	b, first := health.Absent("redis", "redis-not-configured"), 0
	b.Run(t.Context(), func() { first++ }, func(string, error) { t.Error("it changed") }) // returns at once
	const reason = "redis is down: redis-not-configured"
	if !b.IsAbsent() || first != 1 || b.Up().Err() == nil || fmt.Sprint(b.Err()) != reason {
		t.Errorf("absent %t, first %d, up %v, %v", b.IsAbsent(), first, b.Up().Err(), b.Err())
	}
}

// A probe that gets no answer in time is no outage while others get theirs, and is one when nobody does. What is
// refused is refused.
func TestHeard(t *testing.T) {
	answers, busy, err := uint64(0), true, error(nil)
	b := health.New("redis", health.Heard(func(context.Context) error {
		if busy {
			answers++
		}
		return err
	}, func() uint64 { return answers }))
	probe := func(down bool) {
		t.Helper()
		if now, _ := b.Probe(t.Context()); (now != nil) != down {
			t.Errorf("Probe() = %v, want down: %t", now, down)
		}
	}
	probe(false)
	err = context.DeadlineExceeded
	for range 2 * health.Failures {
		probe(false)
	}
	busy = false
	for range health.Failures - 1 {
		probe(false)
	}
	probe(true)
	busy, err = true, errRefused
	probe(true)
}

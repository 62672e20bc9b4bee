package health_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
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

// A server answers as the test says.
type server struct {
	mu    sync.Mutex
	err   error
	hangs bool
	asked int
}

func (s *server) check(ctx context.Context) error {
	s.mu.Lock()
	err, hangs := s.err, s.hangs
	s.asked++
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return fmt.Errorf("ping: %w", ctx.Err())
	}
	return err
}

func (s *server) set(err error, hangs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.hangs = err, hangs
}

// A log is what Run tells of.
type log struct {
	mu      sync.Mutex
	first   int
	changes []string
}

func (l *log) firstDone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first++
}

func (l *log) changed(name string, down error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, fmt.Sprintf("%s: %v", name, down))
}

// is fails unless those were the changes since it was last asked.
func (l *log) is(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.changes, want) {
		t.Errorf("changes %q, want %q", l.changes, want)
	}
	l.changes = nil
}

// watch runs a backend named redis in a bubble of synctest until test returns. Checks are at 0, Interval, 2
// Intervals... pass lets time go on, and ends between two of them.
func watch(t *testing.T, s *server, test func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b, l := health.New("redis", s.check), &log{}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { b.Run(ctx, l.firstDone, l.changed) })
		synctest.Wait()
		test(t, b, l, func(d time.Duration) {
			time.Sleep(d) // of the bubble: no time passes outside
			synctest.Wait()
		})
		cancel()
		run.Wait() // nothing may be left: the bubble would deadlock
		if l.first != 1 {
			t.Errorf("first was called %d times, want once", l.first)
		}
	})
}

const (
	isUp      = "redis: <nil>"
	isRefused = "redis: redis is down: unreachable"
	isSilent  = "redis: redis is down: no-answer (limit=800ms)"
)

func down(t *testing.T, b *health.Backend, reason string) {
	t.Helper()
	var told *driver.DownError
	if err := b.Err(); !errors.As(err, &told) || !errors.Is(err, lock.ErrDown) || told.Server != b.Name() ||
		driver.Coded(told.Reason, told.Values) != reason {
		t.Errorf("Err() = %v, want a DownError of %s: %s", err, b.Name(), reason)
	}
}

func TestUpAfterTheFirstSuccess(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		if err := b.Err(); err != nil || b.Name() != "redis" || b.IsAbsent() {
			t.Errorf("%s: %v, absent %t; want up", b.Name(), err, b.IsAbsent())
		}
		l.is(t, isUp)
		pass(10*health.Interval + health.Interval/2)
		l.is(t) // what does not change is not told
		if s.asked != 11 {
			t.Errorf("asked %d times in 10.5 intervals, want 11", s.asked)
		}
	})
}

// A backend that is refused from the start is told of once, and as what it is.
func TestDownFromTheStart(t *testing.T) {
	s := &server{err: errRefused}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, isRefused)
		pass(3 * health.Interval)
		l.is(t)
		down(t, b, "unreachable")
		if strings.Contains(b.Err().Error(), "s3cret") || strings.Contains(b.Err().Error(), "10.0.0.7") {
			t.Errorf("Err() = %v gives away what the client said", b.Err())
		}
		s.set(nil, false)
		pass(health.Interval)
		l.is(t, isUp)
	})
}

// One that hangs from the start is down after one check: it never was up.
func TestSilentFromTheStart(t *testing.T) {
	s := &server{hangs: true}
	synctest.Test(t, func(t *testing.T) {
		b, l := health.New("redis", s.check), &log{}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { b.Run(ctx, l.firstDone, l.changed) })
		time.Sleep(health.Timeout + time.Millisecond)
		synctest.Wait()
		l.is(t, isSilent)
		if l.first != 1 {
			t.Errorf("first was called %d times after the first check, want once", l.first)
		}
		cancel()
		run.Wait()
	})
}

func TestAnErrorIsAnOutageAtOnce(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, isUp)
		s.set(errRefused, false)
		pass(health.Interval)
		l.is(t, isRefused)
		down(t, b, "unreachable")
		pass(5 * health.Interval)
		l.is(t)
		s.set(nil, false)
		pass(health.Interval)
		l.is(t, isUp)
		if err := b.Err(); err != nil {
			t.Error(err)
		}
	})
}

// A reason with a countdown is told of once, and shown as it is now; another reason is news.
func TestACountdownIsNoNews(t *testing.T) {
	counts := func(in string) error { return &driver.DownError{Server: "redis", Reason: "it counts in " + in} }
	s := &server{err: counts("10s")}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, "redis: redis is down: it counts in 10s")
		for _, left := range []string{"9s", "8s"} {
			s.set(counts(left), false)
			pass(health.Interval)
			l.is(t)
			down(t, b, "it counts in "+left)
		}
		s.set(errRefused, false)
		pass(health.Interval)
		l.is(t, isRefused)
	})
}

// One slow reply is no outage, Failures in a row are; and a good one in between starts the count anew.
func TestSlowness(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, isUp)
		pass(health.Interval / 2)
		for range 3 { // slow, good, slow, good, slow, good
			s.set(nil, true)
			pass(health.Interval) // a check hangs now, and is given up at Timeout
			s.set(nil, false)
			pass(health.Timeout)
			if err := b.Err(); err != nil {
				t.Fatalf("after one slow reply: %v, want up", err)
			}
		}
		l.is(t)
		s.set(nil, true)
		pass(health.Failures * (health.Interval + health.Timeout))
		l.is(t, isSilent)
		down(t, b, "no-answer (limit=800ms)")
		s.set(nil, false)
		pass(health.Interval + health.Timeout)
		l.is(t, isUp)
	})
}

// Clients put a slow reply in words of their own: of package context, of os, of net.
func TestEveryWordForSlow(t *testing.T) {
	for _, slow := range []error{
		context.DeadlineExceeded,
		fmt.Errorf("ping: %w", context.DeadlineExceeded),
		os.ErrDeadlineExceeded,
		&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, // go-redis: "i/o timeout"
	} {
		s := &server{}
		watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
			l.is(t, isUp)
			pass(health.Interval / 2)
			s.set(slow, false)
			pass(health.Interval)
			if err := b.Err(); err != nil {
				t.Errorf("after one %q: %v, want up", slow, err)
			}
			pass(health.Interval)
			l.is(t, isSilent)
		})
	}
}

// What the check says in a DownError is meant to be shown, and a change of the reason is a change.
func TestReasons(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, isUp)
		for _, reason := range []string{"the schema is missing", "the schema is missing", "its disk is full"} {
			s.set(fmt.Errorf("check schema: %w", &driver.DownError{Server: "redis", Reason: reason}), false)
			pass(health.Interval)
			down(t, b, reason)
		}
		s.set(errRefused, false)
		pass(health.Interval)
		l.is(t, "redis: redis is down: the schema is missing", "redis: redis is down: its disk is full", isRefused)
	})
}

// The context of Up ends with the reason when the backend goes down, and there is another one when it is up again.
func TestUp(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		before := b.Up()
		if before.Err() != nil {
			t.Fatalf("up: %v", before.Err())
		}
		for _, why := range []error{errRefused, driver.NewDown("redis", "disk-full")} {
			s.set(why, false)
			pass(health.Interval)
			if cause := context.Cause(b.Up()); cause == nil || errors.Is(cause, context.Canceled) {
				t.Errorf("down: ended because of %v, want %v", cause, b.Err())
			}
		}
		down(t, b, "disk-full")
		if cause := context.Cause(before); !errors.Is(cause, lock.ErrDown) {
			t.Errorf("what began before: ended because of %v", cause)
		}
		s.set(nil, false)
		pass(health.Interval)
		after := b.Up()
		if after.Err() != nil || before.Err() == nil {
			t.Errorf("up again: %v; what had ended: %v", after.Err(), before.Err())
		}
		s.set(errRefused, false)
		pass(health.Interval)
		if cause := context.Cause(after); cause != b.Err() {
			t.Errorf("the second outage: ended because of %v, want %v", cause, b.Err())
		}
	})
}

func TestAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, l := health.Absent("redis", "redis-not-configured"), &log{}
		if !b.IsAbsent() {
			t.Error("it does not say so")
		}
		b.Run(t.Context(), l.firstDone, l.changed) // returns at once: there is nothing to ask
		if l.first != 1 {
			t.Errorf("first was called %d times, want once", l.first)
		}
		l.is(t)
		down(t, b, "redis-not-configured")
		if b.Up().Err() == nil {
			t.Error("it is up")
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
		// In the middle of the check that would be the last one which may fail.
		time.Sleep(health.Interval + (health.Failures-1)*max(health.Interval, health.Timeout) + health.Timeout/2)
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

// A backend that is up, but not for everything, is up: no wait ends. It is told of when that begins and ends, and says
// what it is.
func TestImpaired(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, isUp)
		ctx := b.Up()
		s.set(&health.ImpairedError{Reason: "half of it is gone"}, false)
		pass(health.Interval)
		l.is(t, "redis: half of it is gone")
		if b.Err() != nil || ctx.Err() != nil {
			t.Errorf("it is %v, and waits are %v", b.Err(), ctx.Err())
		}
		if w, ok := errors.AsType[*health.ImpairedError](b.Warning()); !ok || w.Reason != "half of it is gone" {
			t.Errorf("Warning() = %v", b.Warning())
		}
		pass(3 * health.Interval)
		l.is(t)
		s.set(errRefused, false)
		pass(health.Interval)
		l.is(t, isRefused)
		if b.Warning() != nil {
			t.Errorf("down, with the warning %v", b.Warning())
		}
		s.set(&health.ImpairedError{Reason: "half of it is gone"}, false)
		pass(health.Interval)
		s.set(nil, false)
		pass(health.Interval)
		l.is(t, "redis: half of it is gone", isUp)
		if b.Warning() != nil {
			t.Errorf("all is well, with the warning %v", b.Warning())
		}
	})
}

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
		down(t, b, "no-answer (limit=800ms)")
	})
}

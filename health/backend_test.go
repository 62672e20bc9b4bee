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

	"example.com/stock/health"
	"example.com/stock/lock"
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
	isRefused = "redis: redis is down: cannot be reached"
	isSilent  = "redis: redis is down: no answer within 800ms"
)

func down(t *testing.T, b *health.Backend, reason string) {
	t.Helper()
	var told *lock.DownError
	if err := b.Err(); !errors.As(err, &told) || !errors.Is(err, lock.ErrDown) || told.Server != b.Name() ||
		told.Reason != reason {
		t.Errorf("Err() = %v, want a DownError of %s: %s", err, b.Name(), reason)
	}
}

func TestDownUntilAsked(t *testing.T) {
	down(t, health.New("redis", nil), "not asked yet")
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
		down(t, b, "cannot be reached")
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
		down(t, b, "cannot be reached")
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
	counts := func(in string) error { return &lock.DownError{Server: "redis", Reason: "it counts in " + in} }
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
		down(t, b, "no answer within 800ms")
		s.set(nil, false)
		pass(health.Interval + health.Timeout)
		l.is(t, isUp)
	})
}

// The promise in words: a server that hangs is known within 2.4 s.
func TestAHangIsKnownWithinFailuresChecks(t *testing.T) {
	s := &server{}
	watch(t, s, func(t *testing.T, b *health.Backend, l *log, pass func(time.Duration)) {
		l.is(t, isUp)
		s.set(nil, true)
		pass(2400 * time.Millisecond)
		l.is(t, isSilent)
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

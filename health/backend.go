// Package health watches the servers that the service depends on: up, or down and why.
package health

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
	"unicode"

	"example.com/stock/lock"
)

// A backend is asked every Interval and has Timeout to answer. One that was up is down after Failures in a row: a server that
// hangs is known within 2.4 s, one that refuses at once within 0.4 s, and one slow reply under load is no outage.
const (
	Interval = 400 * time.Millisecond
	Timeout  = 800 * time.Millisecond
	Failures = 2
)

// A Backend is one server and what is known of it. It is safe for concurrent use.
type Backend struct {
	name  string
	check func(context.Context) error

	mu      sync.Mutex
	down    error // nil: up
	warning error // up, but not for everything; nil: for everything
	failed  int   // checks in a row
	latency time.Duration
	up      context.Context // ends when the backend goes down, with the reason as cause
	end     context.CancelCauseFunc
}

// An ImpairedError is what a check returns where the server is up, but not for everything. The backend is up then. Its
// words are safe to show.
type ImpairedError struct{ Reason string }

func (e *ImpairedError) Error() string { return e.Reason }

// New makes a Backend that is down until check has passed once. An error of check that is a lock.DownError is shown as it is; of
// others only a summary is, because they may hold addresses and passwords.
func New(name string, check func(context.Context) error) *Backend {
	b := &Backend{name: name, check: check, down: &lock.DownError{Server: name, Reason: "not asked yet"}}
	b.up, b.end = context.WithCancelCause(context.Background())
	b.end(b.down)
	return b
}

// Absent makes a Backend that is not configured and stays down. reason says what to set.
func Absent(name, reason string) *Backend {
	b := New(name, nil)
	b.down = &lock.DownError{Server: name, Reason: reason}
	return b
}

// Name is the backend's name.
func (b *Backend) Name() string { return b.name }

// Err is nil while the backend is up, and otherwise a lock.DownError.
func (b *Backend) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down
}

// Warning says for what the backend cannot be used although it is up; nil: it can be used for everything, or is down.
func (b *Backend) Warning() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.warning
}

// Latency is how long the last check took.
func (b *Backend) Latency() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latency
}

// While returns a ctx that also ends when the backend goes down, with Err as its cause.
func (b *Backend) While(ctx context.Context) (context.Context, context.CancelFunc) {
	b.mu.Lock()
	up, down := b.up, b.down
	b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	if down != nil {
		cancel(down) // the reason that holds now, which need not be the one that up ended with
	}
	stop := context.AfterFunc(up, func() { cancel(context.Cause(up)) })
	return ctx, func() { stop(); cancel(nil) }
}

// IsAbsent is whether the backend was made by Absent.
func (b *Backend) IsAbsent() bool { return b.check == nil }

// Run checks until ctx ends. first is called once, after the first check; changed is told of every change: nil for up,
// an ImpairedError for up but not for everything. A reason that differs by numbers only is none.
func (b *Backend) Run(ctx context.Context, first func(), changed func(name string, down error)) {
	if b.check == nil {
		first()
		return
	}
	ticker := time.NewTicker(Interval)
	defer ticker.Stop()
	for {
		if now, ok := b.Probe(ctx); ok {
			changed(b.name, now)
		}
		if first != nil {
			first()
			first = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Probe checks once and reports what the backend is now, as Run tells it, and whether that is a change.
func (b *Backend) Probe(ctx context.Context) (now error, changed bool) {
	asked := time.Now()
	probe, cancel := context.WithTimeout(ctx, Timeout)
	err := b.check(probe)
	late := probe.Err() != nil
	cancel()
	if ctx.Err() != nil {
		return nil, false // the service stops; that says nothing of the backend
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latency = time.Since(asked)
	before := b.down
	impaired, some := errors.AsType[*ImpairedError](err)
	if err == nil || some {
		warned := b.warning
		b.failed, b.down, b.warning = 0, nil, nil
		if some {
			b.warning = impaired
		}
		if before != nil {
			b.up, b.end = context.WithCancelCause(context.Background())
		}
		return b.warning, before != nil || differ(warned, b.warning)
	}
	b.failed++
	_, told := errors.AsType[*lock.DownError](err)
	// Whatever the client says when its time is over: a driver may call it a bad connection, because it has closed it.
	late = !told && (late || slow(err))
	reason := b.reason(err, late)
	if before == nil && b.failed < Failures && late {
		return nil, false
	}
	b.down, b.warning = reason, nil
	b.end(reason)
	return reason, differ(before, reason)
}

// differ tells whether the one is news to who knows the other. nil is that nothing is wrong.
func differ(before, now error) bool {
	if before == nil || now == nil {
		return before != now
	}
	return wording(before) != wording(now)
}

// wording is a reason without its numbers: that a countdown goes on is no change.
func wording(reason error) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, reason.Error())
}

func (b *Backend) reason(err error, late bool) error {
	var told *lock.DownError
	switch {
	case errors.As(err, &told):
		return told
	case late:
		return &lock.DownError{Server: b.name, Reason: "no answer within " + Timeout.String()}
	default:
		return &lock.DownError{Server: b.name, Reason: "cannot be reached"}
	}
}

// slow tells whether err is of an answer that did not come in time. Clients say so in the words of package context or in the
// socket's, such as go-redis; what these have in common is Timeout.
func slow(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// Heard makes a check that calls the server silent only if nobody else has heard of it either: one that answers others
// while it leaves a probe waiting is busy, or this process is, and no outage. answers counts what the server has
// answered to others; only its changes matter. An error that comes before the time of the check is over stays what it
// is.
func Heard(check func(context.Context) error, answers func() uint64) func(context.Context) error {
	return func(ctx context.Context) error {
		before := answers()
		err := check(ctx)
		if err != nil && (slow(err) || ctx.Err() != nil) && answers() != before {
			return nil
		}
		return err
	}
}

// Package health checks whether the servers that the service depends on are up, and if not, why.
package health

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
	"unicode"

	"example.com/stock/lock/driver"
)

// A backend is checked every Interval and has Timeout to answer. It goes down after Failures slow checks in a row, or
// after one other error. So a server that hangs is detected within 2.4 s, and a server that refuses connections within
// 0.4 s, but one slow reply under load is not an outage.
const (
	Interval = 400 * time.Millisecond
	Timeout  = 800 * time.Millisecond
	Failures = 2
)

// A Backend is one server and its last known state. It is safe for concurrent use.
type Backend struct {
	// Patience is how long one check may take; 0: Timeout. A test has more, if its computer is busy.
	Patience time.Duration

	name  string
	check func(context.Context) error

	mu      sync.Mutex
	down    error // nil: up
	cause   error // of down, as the client reports it; it may have addresses
	warning error // limits the use of a server that is up; nil: no limit
	failed  int   // failed checks in a row
	latency time.Duration
	server  string
	up      context.Context // ends when the backend goes down, with the reason as cause
	end     context.CancelCauseFunc
}

// An ImpairedError is a check's result for a server that is up but cannot be used for everything. The backend then is
// up. The text is safe to show.
type ImpairedError struct {
	Reason string
	Cause  error // whose text Reason is, in more languages; nil: none
}

func (e *ImpairedError) Error() string { return e.Reason }

func (e *ImpairedError) Unwrap() error { return e.Cause }

// New returns a Backend that is down until check has succeeded once. If check returns a driver.DownError, it is shown.
// Other errors are replaced by a summary, because they may contain addresses and passwords.
func New(name string, check func(context.Context) error) *Backend {
	b := &Backend{name: name, check: check, down: driver.NewDown(name, "not-asked-yet")}
	b.up, b.end = context.WithCancelCause(context.Background())
	b.end(b.down)
	return b
}

// Absent returns a Backend that is not configured and stays down. reason is the code of a driver.DownError whose text
// says which setting is missing.
func Absent(name, reason string) *Backend {
	b := New(name, nil)
	b.down = driver.NewDown(name, reason)
	return b
}

func (b *Backend) Name() string { return b.name }

// IsAbsent reports whether the backend is never checked, because no setting names it.
func (b *Backend) IsAbsent() bool { return b.check == nil }

// Err returns nil while the backend is up, and otherwise a driver.DownError.
func (b *Backend) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.down
}

// Cause returns the error that Err summarizes, for the log only. It is nil while the backend is up, and if Err says
// everything.
func (b *Backend) Cause() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cause
}

// Warning returns an error that names the uses that are impossible although the backend is up. It returns nil if the
// backend is down or has no such limit.
func (b *Backend) Warning() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.warning
}

// Latency returns how long the last check took.
func (b *Backend) Latency() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.latency
}

// Server returns what the server reports about itself, or "".
func (b *Backend) Server() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server
}

// SetServer sets the result of Server, and reports whether it has changed.
func (b *Backend) SetServer(about string) (changed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed = b.server != about
	b.server = about
	return changed
}

// Up returns a context that is canceled when the backend goes down, with Err as its cause. While the backend is down,
// Up returns a canceled context.
func (b *Backend) Up() context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.up
}

// Run checks until ctx ends. It calls first after the first check, and changed at every change. The argument down is
// nil if the backend is up, an ImpairedError if it is up with a warning, and a driver.DownError if it is down. Reasons
// that differ only in numbers do not count as a change.
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

// Probe checks once. It returns the state in the form that Run passes to changed, and whether it has changed.
func (b *Backend) Probe(ctx context.Context) (now error, changed bool) {
	asked := time.Now()
	probe, cancel := context.WithTimeout(ctx, cmp.Or(b.Patience, Timeout))
	err := b.check(probe)
	late := probe.Err() != nil
	cancel()
	if ctx.Err() != nil {
		return nil, false // the service is stopping, so the check proves nothing
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.latency = time.Since(asked)
	impaired, partly := errors.AsType[*ImpairedError](err)
	switch {
	case err == nil:
		return b.isUp(nil)
	case partly:
		return b.isUp(impaired)
	default:
		return b.hasFailed(err, late)
	}
}

// isUp records a check that has succeeded, with a warning or nil.
func (b *Backend) isUp(warning error) (now error, changed bool) {
	changed = b.down != nil || differ(b.warning, warning)
	if b.down != nil {
		b.up, b.end = context.WithCancelCause(context.Background())
	}
	b.failed, b.down, b.cause, b.warning = 0, nil, nil, warning
	return warning, changed
}

// hasFailed records a check that has failed. late: it had no answer in time.
func (b *Backend) hasFailed(err error, late bool) (now error, changed bool) {
	b.failed++
	down, told := errors.AsType[*driver.DownError](err)
	// After the timeout, err is ignored: the driver may have closed the connection itself, and then report it as bad.
	late = !told && (late || slow(err))
	if late && b.down == nil && b.failed < Failures {
		return nil, false
	}
	before, reason := b.down, b.reason(err, late)
	b.down, b.warning, b.cause = reason, nil, err
	if told && err == error(down) {
		b.cause = nil // the reason says everything
	}
	b.end(reason)
	return reason, differ(before, reason)
}

// differ reports whether two reasons differ by more than numbers. nil means that nothing is wrong.
func differ(before, now error) bool {
	if before == nil || now == nil {
		return before != now
	}
	return wording(before) != wording(now)
}

// wording returns the text of a reason without its numbers, so that a countdown does not count as a change.
func wording(reason error) string {
	return strings.Join(strings.FieldsFunc(reason.Error(), unicode.IsDigit), "")
}

func (b *Backend) reason(err error, late bool) error {
	var told *driver.DownError
	switch {
	case errors.As(err, &told):
		return told
	case late:
		return driver.NewDown(b.name, "no-answer", "limit", Timeout.String())
	case isTLS(err):
		return driver.NewDown(b.name, "tls")
	default:
		return driver.NewDown(b.name, "unreachable")
	}
}

// slow reports whether err is a timeout. Some clients return the errors of package context; others, such as go-redis,
// return the errors of the socket. All these errors have the method Timeout.
func slow(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

// isTLS reports whether err says that one side does not speak TLS as the other does, or refuses its certificate. A
// server that refuses ours says so in an alert, which package tls has no type for.
func isTLS(err error) bool {
	var (
		refused *tls.CertificateVerificationError
		other   tls.RecordHeaderError
		alert   *net.OpError
	)
	return errors.As(err, &refused) || errors.As(err, &other) || errors.As(err, &alert) && alert.Op == "remote error"
}

// Heard returns a check that ignores a timeout of check if the server answered other clients of this process in the
// meantime. Then the server or this process is busy, and there is no outage. answers returns the number of replies to
// the other clients so far. Errors other than timeouts are returned unchanged.
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

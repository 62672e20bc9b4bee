package repo

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
	"example.com/stock/service"
)

// A deadlock is resolved by another attempt, as long as there is time and not for ever. The end of ctx in a pause is
// no success.
func TestRepeat(t *testing.T) {
	refused := errors.New("refused")
	for name, row := range map[string]struct {
		answers []error // the last one from then on
		limit   time.Duration
		times   int
		want    error
	}{
		"done":               {[]error{nil}, time.Hour, 1, nil},
		"refused":            {[]error{refused}, time.Hour, 1, refused},
		"changed, then done": {[]error{ErrChanged, nil}, time.Hour, 2, nil},
		"changed for ever":   {[]error{ErrChanged}, time.Hour, Attempts, ErrChanged},
		"deadlock":           {[]error{told(mysqlerr.Deadlock), nil}, time.Hour, 2, nil},
		"read check":         {[]error{told(mysqlerr.Checkread), nil}, time.Hour, 2, nil},
		"stale connection": {
			[]error{stale(sqldriver.ErrBadConn), stale(mysql.ErrInvalidConn), nil}, time.Hour, 3, nil,
		},
		"no stale one":       {[]error{stale(refused), nil}, time.Hour, 1, refused},
		"no time at all":     {[]error{ErrChanged, nil}, 0, 1, ErrChanged},
		"the end in a pause": {[]error{ErrChanged, nil}, time.Nanosecond, 1, ErrChanged},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), row.limit)
				defer cancel()
				times, m := 0, &MySQL{}
				err := m.repeat(ctx, func() error {
					times++
					return row.answers[min(times, len(row.answers))-1]
				})
				if times != row.times || !errors.Is(err, row.want) || (err == nil) != (row.want == nil) {
					t.Errorf("%v after %d times; want %v after %d", err, times, row.want, row.times)
				}
				if m.Answers() != uint64(times) {
					t.Errorf("%d answers are counted, want %d", m.Answers(), times)
				}
			})
		})
	}
}

// What the server has answered counts, refusals included. What it has not, does not. A lack of room is remembered.
func TestWhatCountsAsAnAnswer(t *testing.T) {
	for _, row := range []struct {
		err     error
		answers uint64
		full    bool
	}{
		{nil, 1, false},
		{service.ErrConflict, 1, false},
		{lock.ErrDown, 0, false},
		{lock.ErrOverloaded, 0, false},
		{service.ErrOutcomeUnknown, 0, false},
		{context.Canceled, 0, false},
		{context.DeadlineExceeded, 0, false},
		{&driver.DownError{Server: "redis", Full: true}, 0, true},
	} {
		var c answerCounter
		c.CountAnswer(row.err)
		if c.Answers() != row.answers || c.full.Load() != row.full {
			t.Errorf("%v: %d answers, full %t", row.err, c.Answers(), c.full.Load())
		}
	}
}

// A request that found no connection was not sent. One that was not answered may have been.
func TestWhatWasSent(t *testing.T) {
	for _, row := range []struct {
		err  error
		sent bool
	}{
		{redis.ErrPoolTimeout, false},
		{redis.ErrPoolExhausted, false},
		{redis.ErrClosed, false},
		{context.Canceled, false},
		{context.DeadlineExceeded, false},
		{&net.OpError{Op: "dial", Err: io.EOF}, false},
		{&net.OpError{Op: "read", Err: io.EOF}, true},
		{&net.OpError{Op: "write", Err: io.EOF}, true},
		{io.EOF, true},
	} {
		if got := sent(row.err); got != row.sent {
			t.Errorf("%v: sent %t", row.err, got)
		}
	}
}

// A deadline that passed while the server kept the caller waiting is the server's fault. Any other end is the caller's.
func TestWhoEndedTheWait(t *testing.T) {
	cause := errors.New("the instance stops")
	late, end := context.WithTimeout(t.Context(), -time.Second)
	defer end()
	gone, leave := context.WithCancel(t.Context())
	leave()
	stopped, stop := context.WithCancelCause(t.Context())
	stop(cause)
	// The socket has the deadline of ctx, and may notice it first.
	socket := &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}
	unnoticed := RedisFault(lateContext{t.Context()}, "read", "k", socket)
	lost := OutcomeUnknown("read", io.EOF)
	for name, row := range map[string]struct {
		err  error
		is   []error
		isnt []error
	}{
		"late":             {CtxEnded(late, "read"), []error{lock.ErrDown}, nil},
		"late, a wait":     {WaitEnded(late, "read"), []error{context.DeadlineExceeded}, []error{lock.ErrDown}},
		"gone":             {CtxEnded(gone, "read"), []error{context.Canceled}, []error{lock.ErrDown}},
		"stopped":          {CtxEnded(stopped, "read"), []error{context.Canceled, cause}, []error{lock.ErrDown}},
		"repeat, stopped":  {Idempotent(stopped, "read", lost), []error{cause}, []error{lock.ErrDown}},
		"repeat, late":     {Idempotent(late, "read", lost), []error{lock.ErrDown}, nil},
		"repeat, in time":  {Idempotent(t.Context(), "read", lost), []error{lock.ErrDown}, nil},
		"mysql, gone":      {MySQLFault(gone, "read", io.EOF), []error{context.Canceled}, []error{lock.ErrDown}},
		"mysql, in time":   {MySQLFault(t.Context(), "read", io.EOF), []error{lock.ErrDown}, nil},
		"mysql, answered":  {MySQLFault(gone, "read", told(mysqlerr.LockNowait)), []error{lock.ErrHeld}, nil},
		"mysql, deadlock":  {MySQLFault(gone, "read", told(mysqlerr.Deadlock)), []error{lock.ErrHeld}, nil},
		"mysql, lock wait": {MySQLFault(gone, "read", told(mysqlerr.LockWaitTimeout)), []error{lock.ErrHeld}, nil},
		"mysql, no room":   {MySQLFault(gone, "read", told(mysqlerr.DiskFull)), []error{lock.ErrFull}, nil},
		"mysql, other":     {MySQLFault(gone, "read", told(1406)), nil, []error{lock.ErrDown, lock.ErrHeld}},
		"redis, no pool":   {RedisFault(gone, "read", "k", redis.ErrPoolTimeout), []error{lock.ErrOverloaded}, nil},
		"redis, pool full": {RedisFault(gone, "read", "k", redis.ErrPoolExhausted), []error{lock.ErrOverloaded}, nil},
		"redis, gone":      {RedisFault(gone, "read", "k", io.EOF), []error{context.Canceled}, []error{lock.ErrDown}},
		"redis, late":      {unnoticed, []error{lock.ErrDown, context.DeadlineExceeded}, nil},
		"redis, in time":   {RedisFault(t.Context(), "read", "k", io.EOF), []error{lock.ErrDown}, nil},
	} {
		if row.err == nil || !strings.Contains(row.err.Error(), "read") {
			t.Errorf("%s: %v", name, row.err)
		}
		for _, target := range row.is {
			if !errors.Is(row.err, target) {
				t.Errorf("%s: %v is not %v", name, row.err, target)
			}
		}
		for _, target := range row.isnt {
			if errors.Is(row.err, target) {
				t.Errorf("%s: %v is %v", name, row.err, target)
			}
		}
	}
	if err := MySQLFault(gone, "read", nil); err != nil {
		t.Error(err)
	}
}

// An error that names one order does not fail the whole batch. An error of the server or of the connection does.
func TestOfOneOrder(t *testing.T) {
	for _, row := range []struct {
		err  error
		want bool
	}{
		{told(1406), true}, // too long for its column
		{io.EOF, false},
		{ErrChanged, false},
		{fmt.Errorf("%w: %w", lock.ErrDown, told(1406)), false},
		{fmt.Errorf("%w: %w", lock.ErrHeld, told(1406)), false},
		{fmt.Errorf("%w: %w", service.ErrOutcomeUnknown, told(1406)), false},
	} {
		if got := OfOneOrder(row.err); got != row.want {
			t.Errorf("%v: %t", row.err, got)
		}
	}
}

// lateContext has a deadline, and never notices that it has passed.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

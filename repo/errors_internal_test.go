package repo

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/mysqlerr"
	"example.com/stock/lock/driver/redisscript"
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

// Each word of a script is an error of its own, which names what it is about.
func TestWordsOfScripts(t *testing.T) {
	const key = "stock:{pen}"
	for _, row := range []struct {
		reply []any
		want  error
		says  string
	}{
		{[]any{"unknown sku"}, service.ErrUnknownSKU, `"pen"`},
		{[]any{"reset"}, service.ErrStockReset, ""},
		{[]any{"settled"}, service.ErrSettled, ""},
		{[]any{"key taken"}, service.ErrKeyTaken, ""},
		{[]any{"full"}, service.ErrUndecided, "100000"},
		{[]any{"no orders"}, nil, "stock:{pen}:orders"},
		{[]any{"guarded", "optimistic"}, service.ErrGuarded, "optimistic"},
		{[]any{"changed"}, service.ErrConflict, ""},
		{[]any{"precondition"}, service.ErrPrecondition, ""},
		{[]any{"stale fence", "12"}, service.ErrStaleFence, "12"},
		{[]any{"sold out", "3"}, service.ErrSoldOut, "3"},
		{[]any{"sold out", "three"}, service.ErrSoldOut, "is not stock of this service"},
		{[]any{"hello"}, nil, `"hello"`},
		{nil, nil, `""`},
	} {
		err := Refusal("test", key, row.reply)
		if err == nil || row.want != nil && !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%q: %v, want %v with %q", row.reply, err, row.want, row.says)
		}
	}
	if err := Refusal("test", key, []any{"ok"}); err != nil {
		t.Error(err)
	}
	var left *service.SoldOutError
	if err := Refusal("test", key, []any{"sold out", "3"}); !errors.As(err, &left) || left.Remaining != 3 {
		t.Errorf("%v", err)
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
	for name, row := range map[string]struct {
		err  error
		is   []error
		isnt []error
	}{
		"late":             {CtxEnded(late, "read"), []error{lock.ErrDown}, nil},
		"late, a wait":     {WaitEnded(late, "read"), []error{context.DeadlineExceeded}, []error{lock.ErrDown}},
		"gone":             {CtxEnded(gone, "read"), []error{context.Canceled}, []error{lock.ErrDown}},
		"stopped":          {CtxEnded(stopped, "read"), []error{context.Canceled, cause}, []error{lock.ErrDown}},
		"repeat, stopped":  {IdempotentFailure(stopped, "read", io.EOF), []error{cause}, []error{lock.ErrDown}},
		"repeat, late":     {IdempotentFailure(late, "read", io.EOF), []error{lock.ErrDown}, nil},
		"repeat, in time":  {IdempotentFailure(t.Context(), "read", io.EOF), []error{lock.ErrDown}, nil},
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

// Refusals are no faults of the server, and errors of the connection say nothing about an order.
func TestRefusalsAreNoFaults(t *testing.T) {
	for _, err := range []error{
		nil, ErrChanged, ErrNothing, service.ErrConflict, service.ErrUnknownSKU, service.ErrStockReset,
		service.ErrGuarded, service.ErrStaleFence, service.ErrSoldOut, service.ErrSettled, service.ErrKeyTaken,
		service.ErrPrecondition,
	} {
		if got := Explain(t.Context(), "test", err); Fault(err) || got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, err := range []error{io.EOF, told(mysqlerr.Deadlock), service.ErrOutcomeUnknown} {
		if !Fault(err) {
			t.Errorf("%v is no fault", err)
		}
	}
	for _, row := range []struct {
		err                  error
		ofOrder, unreachable bool
	}{
		{io.EOF, false, true},
		{sqldriver.ErrBadConn, false, true},
		{mysql.ErrInvalidConn, false, true},
		{&net.OpError{Op: "read", Err: io.ErrClosedPipe}, false, true},
		{ErrChanged, false, false},
		{told(1406), true, false},
		{fmt.Errorf("%w: %w", lock.ErrDown, told(1406)), false, false},
		{fmt.Errorf("%w: %w", lock.ErrHeld, told(1406)), false, false},
		{fmt.Errorf("%w: %w", service.ErrOutcomeUnknown, told(1406)), false, false},
	} {
		if OfOneOrder(row.err) != row.ofOrder || unreachable(row.err) != row.unreachable {
			t.Errorf("%v: of one order %t, unreachable %t", row.err, OfOneOrder(row.err), unreachable(row.err))
		}
	}
}

// A field that is missing, or is no number, is an error that names the key, and the first one counts.
func TestFieldsThatAreNone(t *testing.T) {
	for name, row := range map[string]struct {
		values []any
		says   string
	}{
		"whole":      {[]any{"1", "2", "text"}, ""},
		"short":      {[]any{"1", "2"}, "a field is missing"},
		"empty":      {nil, "a field is missing"},
		"no text":    {[]any{"1", "2", int64(3)}, "a field is missing"},
		"no integer": {[]any{"one", "2", "text"}, `"one"`},
		"no natural": {[]any{"1", "-2", "text"}, `"-2"`},
		"two faults": {[]any{"one", "-2", "text"}, `"one"`},
	} {
		f := Fields{Key: "stock:{pen}", Values: row.values}
		_, _, _ = f.Integer(0), f.Natural(1), f.Text(2)
		switch {
		case row.says == "" && f.Err != nil:
			t.Errorf("%s: %v", name, f.Err)
		case row.says != "" && (f.Err == nil || !strings.Contains(f.Err.Error(), row.says) ||
			!strings.Contains(f.Err.Error(), "stock:{pen}")):
			t.Errorf("%s: %v, want %s", name, f.Err, row.says)
		}
	}
}

// A replyOf is an error that Redis has answered.
type replyOf string

func (e replyOf) Error() string { return string(e) }
func (replyOf) RedisError()     {}

// replies answers each command with the next error, and no server is asked.
type replies struct {
	list []error
	then func() // after the last one
}

func (r *replies) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *replies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *replies) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error {
		err := r.list[0]
		if r.list = r.list[1:]; len(r.list) == 0 {
			r.then()
		}
		return err
	}
}

// While a cluster moves the slot, a step is tried again. What comes after that is told, unless it is only the end of
// ctx: then the move is.
func TestAStepWhileTheSlotMoves(t *testing.T) {
	moving := replyOf("TRYAGAIN Multiple keys request during rehashing of slot")
	full := replyOf("OOM command not allowed when used memory > 'maxmemory'.")
	for name, row := range map[string]struct {
		replies []error
		ends    bool // ctx, with the last reply
		want    string
	}{
		"another error":        {[]error{moving, full}, false, "OOM"},
		"the end of ctx":       {[]error{moving, moving}, true, "TRYAGAIN"},
		"no move":              {[]error{full}, false, "OOM"},
		"no move, ctx is over": {[]error{context.Canceled}, true, "context canceled"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		answers := &replies{row.replies, func() {
			if row.ends {
				cancel()
			}
		}}
		client.AddHook(answers)
		_, err := NewRedis(client).Run(ctx, "sell", redisscript.New("return 1"), []string{"stock:{pen}"})
		if err == nil || !strings.Contains(err.Error(), row.want) || len(answers.list) > 0 {
			t.Errorf("%s: %v, want %s; %d replies are left", name, err, row.want, len(answers.list))
		}
		cancel()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

package redislock

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

// An answering client gives one answer to every script.
type answering struct{ values []any }

func (answering) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a answering) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		if o, ok := cmd.(redisscript.Once); ok {
			cmd = o.Cmd
		}
		cmd.(*redis.Cmd).SetVal(a.values)
		return nil
	}
}

func (answering) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// What a script says of a key: a lease may end this very moment, or never; a fence that is ahead of the clock does not
// tell since when a lock is held, and one that is the clock's time does.
func TestWhatInspectReads(t *testing.T) {
	const clock = 1_700_000_000_000_000
	for _, row := range []struct {
		holder    string
		ms, fence int64
		waiters   []any
		remaining time.Duration
		age       time.Duration // -1: not known
	}{
		{"p:1 ann", 0, clock, nil, 0, 0},
		{"p:1 ann", 1, clock - 1, nil, time.Millisecond, time.Microsecond},
		{"p:1 ann", -1, clock + 1, nil, lock.Forever, -1},
		{"p:1 ann", 5000, 0, []any{"q:1 bob", "r:1 eve"}, 5 * time.Second, -1},
		{"p:1 ann", 5000, 1, nil, 5 * time.Second, (clock - 1) * time.Microsecond},
		{"", -2, 0, []any{"q:1 bob"}, 0, -1},
	} {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		client.AddHook(answering{[]any{
			row.holder, row.ms, strconv.FormatInt(row.fence, 10), strconv.Itoa(clock), row.waiters,
		}})
		began := time.Now()
		s, err := inspect(t.Context(), client, []string{"k"})
		_ = client.Close()
		if err != nil || len(s.Waiters) != len(row.waiters) || (s.Holder != nil) != (row.holder != "") {
			t.Errorf("%+v: %+v, %v", row, s, err)
			continue
		}
		if len(s.Waiters) > 1 && (s.Waiters[0].Who != "bob" || s.Waiters[1].Who != "eve") {
			t.Errorf("%+v", s.Waiters)
		}
		if s.Holder == nil {
			continue
		}
		if h := s.Holder; h.Who != "ann" || h.Remaining != row.remaining || h.Fence != lock.Fence(row.fence) ||
			h.Since.IsZero() != (row.age < 0) {
			t.Errorf("%+v: %+v", row, h)
		}
		if since := began.Add(-row.age); row.age >= 0 && (s.Holder.Since.Before(since) ||
			s.Holder.Since.After(time.Now().Add(-row.age))) {
			t.Errorf("%+v: since %v, want %v", row, s.Holder.Since, since)
		}
	}
	for n := range 5 {
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
		client.AddHook(answering{make([]any, n)})
		if s, err := inspect(t.Context(), client, []string{"k"}); err == nil {
			t.Errorf("%d values: %+v", n, fmt.Sprint(s))
		}
		_ = client.Close()
	}
}

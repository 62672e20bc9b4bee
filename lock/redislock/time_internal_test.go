package redislock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/redislock/internal/request"
	"example.com/stock/lock/redislock/teaching"
)

// A slow server grants the first request, and answers when its time has passed on the clock of the test. It answers
// no later request: so nothing that is renewed hides how long the first grant was believed.
type slow struct {
	takes time.Duration
	asked atomic.Int32
}

func (*slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slow) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return s.answer(cmd) }
}

func (s *slow) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, list []redis.Cmder) error { return s.answer(list[0]) }
}

func (s *slow) answer(cmd redis.Cmder) error {
	switch cmd := cmd.(type) {
	case *redis.BoolCmd: // PEXPIRE is the second half of an acquisition
		cmd.SetVal(true)
		return nil
	case redisscript.Once:
		if s.asked.Add(1) == 1 {
			time.Sleep(s.takes)
			cmd.SetVal(map[bool]any{true: "OK", false: []any{"7"}}[cmd.Name() == "set"])
			return nil
		}
	}
	err := errors.New("no answer")
	cmd.SetErr(err)
	return err
}

// timed are the locks with a lease of ten seconds, on servers that answer after some time. SetNXDel is not one of them,
// because it waits for an answer for a second at most.
func timed(t *testing.T, takes time.Duration) map[string]lock.Locker {
	t.Helper()
	const lease = 10 * time.Second
	client := func(port int) *redis.Client {
		c := redis.NewClient(&redis.Options{
			Addr: fmt.Sprint("127.0.0.1:", port), ContextTimeoutEnabled: true, MaxRetries: -1,
		})
		c.AddHook(&slow{takes: takes})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	r, err := NewRedlock([]*redis.Client{client(1), client(2), client(3)}, RedlockOptions{
		Lease: lease, NodeTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range r.nodes { // as if each had told who it is, long after its start
		n.id.Store(&identity{runID: strconv.Itoa(i), born: time.Now().Add(-time.Hour)})
	}
	return map[string]lock.Locker{
		"setnx":        NewSetNX(client(1), SetNXOptions{Lease: lease}),
		"setnx-watch":  teaching.NewSetNXWatch(client(1), teaching.SetNXOptions{Lease: lease}),
		"setnx-expire": teaching.NewSetNXExpire(client(1), teaching.SetNXExpireOptions{Lease: lease}),
		"rlock":        teaching.NewRLock(client(1), teaching.RLockOptions{Lease: lease}),
		"watchdog":     NewWatchdog(client(1), WatchdogOptions{Lease: lease}), "redlock": r,
	}
}

// What a server grants runs out there some time after it was asked for, however late the answer comes. The holder
// counts from before it asked, and a little less for clocks that run at different rates. An answer that comes when
// nothing is left of that grants nothing.
func TestALeaseCountsFromTheRequest(t *testing.T) {
	valid := lock.Valid(10 * time.Second)
	for takes, granted := range map[time.Duration]bool{
		2 * time.Second: true, valid - time.Millisecond: true, valid: false,
	} {
		synctest.Test(t, func(t *testing.T) {
			for name, l := range timed(t, takes) {
				began := time.Now()
				lease, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
				if (err == nil) != granted {
					t.Errorf("%s: answered after %v: %v; want it granted: %t", name, takes, err, granted)
				}
				if err == nil {
					<-lease.Done()
					if held := time.Since(began); held != valid {
						t.Errorf("%s: lost %v after it was asked for, want %v", name, held, valid)
					}
				}
				_ = l.(interface{ Close() error }).Close()
			}
		})
	}
}

// A contender holds a key of a Redlock if it has it on three of five nodes, for as long as it will have that majority.
// Rows say what each node has, with the seconds for which it lasts.
func TestTheMajorityHolds(t *testing.T) {
	r := &Redlock{nodes: make([]*node, 5), addrs: make([]string, 5), quorum: 3}
	for nodes, want := range map[string]string{
		"a10 a20 a30 a40 a50": "a 30s", "- a70 - a60 a50": "a 50s", "b90 a70 b90 a60 a50": "a 50s",
		"b90 a90 b90 a90 -": "", "a90 a90 - - -": "", "a90 a80 a70 - down": "a 1m10s", "a90 - - - down": "",
		"a90 a90 - - down": "majority-not-known", "a90 a90 down down down": "quorum (good=2, all=5, must=3",
	} {
		var found []request.Found
		for _, text := range strings.Fields(nodes) {
			var f request.Found
			switch text {
			case "-":
			case "down":
				f.Err = context.DeadlineExceeded
			default:
				seconds, _ := strconv.Atoi(text[1:])
				f.Value, f.TTL = "1 "+text[:1], time.Duration(seconds)*time.Second
			}
			found = append(found, f)
		}
		got := ""
		state, err := r.majority(found)
		if err != nil {
			got = err.Error()
		} else if state.Holder != nil {
			got = fmt.Sprint(state.Holder.Who, " ", state.Holder.Remaining)
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", nodes, got, want)
		}
	}
}

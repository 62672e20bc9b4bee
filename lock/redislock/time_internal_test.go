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
	o := SetNXOptions{Lease: lease}
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
		n.known, n.id = 0, identity{runID: strconv.Itoa(i), born: time.Now().Add(-time.Hour)}
	}
	return map[string]lock.Locker{
		"setnx": NewSetNX(client(1), o), "setnx-watch": NewSetNXWatch(client(1), o),
		"setnx-expire": NewSetNXExpire(client(1), SetNXExpireOptions{SetNXOptions: o}),
		"rlock":        NewRLock(client(1), RLockOptions{Lease: lease}),
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

// An answer to a release that finds nothing does not prove that the request of before cannot come any more. A second
// one does, but only when the client has given up the request: one that ignores its ctx may send it later.
func TestOneAnswerProvesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		underWay time.Duration
		answers  []error // the last one is repeated
		looks    int     // at the end of the request
	}{
		"found at once":            {0, []error{nil}, 1},
		"found late":               {0, []error{lock.ErrExpired, nil}, 2},
		"never found":              {0, []error{lock.ErrExpired}, 2},
		"another has it":           {0, []error{lock.ErrTaken}, 2},
		"silent, then found":       {0, []error{lock.ErrDown, lock.ErrDown, nil}, 3},
		"silent in between":        {0, []error{lock.ErrExpired, lock.ErrDown, lock.ErrExpired}, 3},
		"found, and may come":      {time.Minute, []error{nil}, 1},
		"not found, and may come":  {time.Minute, []error{lock.ErrExpired}, 2},
		"silent, and may yet come": {time.Minute, []error{lock.ErrDown}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCleanup()
				defer c.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var underWay atomic.Int32
				if row.underWay > 0 {
					_, _ = ask(ctx, &underWay, func() int { time.Sleep(row.underWay); return 0 })
				}
				var all, looks int
				c.undo(ctx, &underWay, func(context.Context) error {
					all++
					if underWay.Load() == 0 {
						looks++
					}
					return row.answers[min(all, len(row.answers))-1]
				})
				time.Sleep(50 * time.Minute)
				synctest.Wait()
				if row.looks > 0 && looks != row.looks || row.looks == 0 && looks < 1000 {
					t.Errorf("it looked %d times, %d when nothing could come, want %d", all, looks, row.looks)
				}
			})
		})
	}
}

// No server counts as older than it must be by what it tells, and with its clock everybody means the same moment: its
// age counts from the end of the second in which it started.
func TestWhenANodeCounts(t *testing.T) {
	for _, row := range []struct {
		uptime, clock string // as INFO tells them
		want          time.Duration
	}{
		{"7", "", 6 * time.Second},
		{"7", "none", 6 * time.Second},
		{"0", "1795295012000000", -time.Second},
		{"7", "1795295012764162", 6764162 * time.Microsecond},
	} {
		info := map[string]string{"uptime_in_seconds": row.uptime, "server_time_usec": row.clock}
		if up, known := age(info); up != row.want || !known {
			t.Errorf("%v: %v, %t, want %v", info, up, known, row.want)
		}
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
		var found []foundKey
		for _, text := range strings.Fields(nodes) {
			var f foundKey
			switch text {
			case "-":
			case "down":
				f.err = context.DeadlineExceeded
			default:
				seconds, _ := strconv.Atoi(text[1:])
				f.keyState = keyState{"1 " + text[:1], time.Duration(seconds) * time.Second}
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

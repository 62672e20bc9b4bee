package redislock

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

// A slow server grants what it is asked for the first time, and answers when its time has passed on the clock of the
// test. It answers no later request: so nothing that is renewed hides how long the first grant was believed.
type slow struct {
	takes time.Duration
	holds bool // the first answer is that another holds the key

	mu    sync.Mutex
	asked []time.Time // the acquisitions
	freed int         // the releases
}

func (*slow) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *slow) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return s.answer(cmd) }
}

func (s *slow) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, list []redis.Cmder) error {
		for i, cmd := range list {
			if i > 0 {
				cmd.SetErr(redis.Nil)
			} else if err := s.answer(cmd); err != nil {
				return err
			}
		}
		return nil
	}
}

var errNoAnswer = errors.New("no answer")

func (s *slow) answer(cmd redis.Cmder) error {
	if o, ok := cmd.(redisscript.Once); ok {
		cmd = o.Cmd
	}
	name, args := cmd.Name(), cmd.Args()
	acquires := name == "set"
	if name == "evalsha" {
		acquires = args[1] == redisscript.New(acquireSource).Digest ||
			args[1] == redisscript.New(queueSource+enterSource).Digest
	}
	s.mu.Lock()
	first := acquires && len(s.asked) == 0
	if acquires {
		s.asked = append(s.asked, time.Now())
	} else if name != "pexpire" {
		s.freed++
	}
	s.mu.Unlock()
	switch {
	case name == "pexpire": // the second half of an acquisition
		cmd.(*redis.BoolCmd).SetVal(true)
		return nil
	case !first:
		cmd.SetErr(errNoAnswer)
		return errNoAnswer
	}
	time.Sleep(s.takes)
	switch reply := cmd.(*redis.Cmd); {
	case name == "set":
		reply.SetVal("OK")
	case s.holds:
		reply.SetVal([]any{"0", "p:1 another", int64(1000)})
	default:
		reply.SetVal([]any{"7"})
	}
	return nil
}

// through returns a client of s. It makes no connection.
func (s *slow) through(t *testing.T, addr string) redis.UniversalClient {
	c := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1})
	c.AddHook(s)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// timed are the locks with a limit of ten seconds, on servers that answer after some time. SetNXDel is not one of them,
// because it waits for an answer for a second at most.
func timed(t *testing.T, takes time.Duration) map[string]lock.Locker {
	t.Helper()
	const lease = 10 * time.Second
	o := SetNXOptions{Lease: lease}
	client := func() redis.UniversalClient { return (&slow{takes: takes}).through(t, "127.0.0.1:1") }
	clients := make([]redis.UniversalClient, 3)
	for i := range clients {
		clients[i] = (&slow{takes: takes}).through(t, "127.0.0.1:"+strconv.Itoa(i+1))
	}
	r, err := NewRedlock(clients, RedlockOptions{Lease: lease, NodeTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range r.nodes { // as if each had told who it is, long after its start
		n.known, n.id = 0, identity{runID: strconv.Itoa(i), born: time.Now().Add(-time.Hour)}
	}
	locks := map[string]lock.Locker{
		"setnx":        NewSetNX(client(), o),
		"setnx-watch":  NewSetNXWatch(client(), o),
		"setnx-expire": NewSetNXExpire(client(), SetNXExpireOptions{SetNXOptions: o}),
		"watchdog":     NewWatchdog(client(), WatchdogOptions{Lease: lease}),
		"redlock":      r,
	}
	return locks
}

func closeAll(locks map[string]lock.Locker) {
	for _, l := range locks {
		if c, ok := l.(interface{ Close() error }); ok {
			_ = c.Close()
		}
	}
}

// What a server grants runs out there some time after it was asked for, however late the answer comes. The holder
// counts from before it asked, and a little less for clocks that run at different rates.
func TestALeaseCountsFromTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := timed(t, 2*time.Second)
		defer closeAll(locks)
		for name, l := range locks {
			began := time.Now()
			lease, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			<-lease.Done()
			if held := time.Since(began); held != lock.Valid(10*time.Second) {
				t.Errorf("%s: lost %v after it was asked for, want %v", name, held, lock.Valid(10*time.Second))
			}
		}
	})
}

// An answer that comes when nothing is left of the lease grants nothing, and what the server has is taken back.
func TestAnAnswerAfterTheLeaseGrantsNothing(t *testing.T) {
	for late, want := range map[time.Duration]bool{0: false, -time.Millisecond: true} {
		synctest.Test(t, func(t *testing.T) {
			locks := timed(t, lock.Valid(10*time.Second)+late)
			defer closeAll(locks)
			for name, l := range locks {
				lease, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
				if (err == nil) != want {
					t.Errorf("%s: answered %v after the end: %v; want it granted: %t", name, late, err, want)
				}
				if err == nil {
					<-lease.Done()
				}
			}
		})
	}
}

// A request without an answer may have been granted, or may yet be: it is taken back.
func TestALostReplyIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, open := range map[string]func(redis.UniversalClient) lock.Locker{
			"setnx":    func(c redis.UniversalClient) lock.Locker { return NewSetNX(c, SetNXOptions{}) },
			"watchdog": func(c redis.UniversalClient) lock.Locker { return NewWatchdog(c, WatchdogOptions{}) },
			"setnx-watch": func(c redis.UniversalClient) lock.Locker {
				return NewSetNXWatch(c, SetNXOptions{})
			},
			"setnx-expire": func(c redis.UniversalClient) lock.Locker {
				return NewSetNXExpire(c, SetNXExpireOptions{})
			},
		} {
			server := &slow{asked: []time.Time{{}}} // it answers no acquisition
			l := open(server.through(t, "127.0.0.1:1"))
			_, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
			closeAll(map[string]lock.Locker{name: l})
			if !errors.Is(err, lock.ErrDown) || server.freed == 0 {
				t.Errorf("%s: %v, %d releases; want down, and a release", name, err, server.freed)
			}
		}
	})
}

// A grant is short until it is renewed, and counts from the request that it answers. One that was heard late is asked
// for again.
func TestAGrantCountsFromTheRequest(t *testing.T) {
	for name, row := range map[string]struct {
		lease, takes, after time.Duration
		taken               bool
	}{
		"in the first half":  {10 * time.Second, time.Second, time.Millisecond, true},
		"in the second half": {10 * time.Second, lock.Valid(grantLease) / 2, time.Millisecond, false},
		"of a lease that would be over": {
			600 * time.Millisecond, time.Millisecond, 650 * time.Millisecond, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := &slow{takes: row.takes, holds: true}
				w := NewWatchdog(server.through(t, "127.0.0.1:1"), WatchdogOptions{Lease: row.lease})
				defer func() { _ = w.Close() }()
				close(w.notifier.now.ready) // as if it had subscribed
				began := time.Now()
				var lease *lock.Lease
				var err error
				var all sync.WaitGroup
				all.Go(func() { lease, err = w.Acquire(t.Context(), "k", lock.Options{}) })
				time.Sleep(row.takes + row.after)
				w.notifier.mu.Lock()
				var value string
				for value = range w.notifier.waiters {
					break
				}
				w.notifier.mu.Unlock()
				w.notifier.notify(grant{value: value, request: 2, fence: 7})
				synctest.Wait()
				w.notifier.notify(grant{value: value, request: 1, fence: 7})
				all.Wait()
				if !row.taken {
					if err == nil || len(server.asked) != 2 {
						t.Errorf("%+v, %v, after %d requests; want it asked for again", lease, err, len(server.asked))
					}
					return
				}
				if err != nil || lease.Fence() != 7 {
					t.Fatalf("%+v, %v; want it granted", lease, err)
				}
				<-lease.Done()
				if held := time.Since(began); held != lock.Valid(grantLease) {
					t.Errorf("lost %v after it was asked for, want %v", held, lock.Valid(grantLease))
				}
			})
		})
	}
}

// An answer to a release that finds nothing does not prove that the request of before cannot come any more. A second
// one does.
func TestOneAnswerProvesNothing(t *testing.T) {
	for name, row := range map[string]struct {
		answers []error // the last one is repeated
		looks   int
	}{
		"found at once":      {[]error{nil}, 1},
		"found late":         {[]error{lock.ErrExpired, nil}, 2},
		"never found":        {[]error{lock.ErrExpired}, 2},
		"another has it":     {[]error{lock.ErrTaken}, 2},
		"silent, then found": {[]error{lock.ErrDown, lock.ErrDown, nil}, 3},
		"silent in between":  {[]error{lock.ErrExpired, lock.ErrDown, lock.ErrExpired}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCleanup()
				defer c.close()
				looks := 0
				c.undo(t.Context(), new(atomic.Int32), func(context.Context) error {
					looks++
					return row.answers[min(looks, len(row.answers))-1]
				})
				time.Sleep(time.Hour)
				synctest.Wait()
				if looks != row.looks {
					t.Errorf("it looked %d times, want %d", looks, row.looks)
				}
			})
		})
	}
}

// A client that ignores its ctx may still send the request, for example when its connection is made. Until it has given
// it up, no answer proves that the request cannot come any more, not even one that found an earlier request's key.
func TestAnswersCountWhenTheClientHasGivenUp(t *testing.T) {
	for name, answer := range map[string]error{"found": nil, "never found": lock.ErrExpired} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCleanup()
				defer c.close()
				var underWay atomic.Int32
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if _, err := ask(ctx, &underWay, func() int { time.Sleep(time.Minute); return 0 }); err == nil {
					t.Fatal("the request was answered")
				}
				var looks, late atomic.Int32
				c.undo(ctx, &underWay, func(context.Context) error {
					looks.Add(1)
					if underWay.Load() == 0 {
						late.Add(1)
					}
					return answer
				})
				time.Sleep(time.Hour)
				want := int32(2)
				if answer == nil {
					want = 1
				}
				if late.Load() != want || looks.Load() <= want {
					t.Errorf("it looked %d times, %d of them after the client had given up, want %d of these",
						looks.Load(), late.Load(), want)
				}
			})
		})
	}
}

// A grant that was heard before a request does not answer it.
func TestAGrantOfBeforeIsForgotten(t *testing.T) {
	n := newNotifier(nil, "p", nil)
	me := n.add("value")
	n.notify(grant{value: "value", request: n.next(me), fence: 7})
	again := n.next(me)
	select {
	case fence := <-me.granted:
		t.Errorf("the grant of before is there, with fence %d", fence)
	default:
	}
	n.notify(grant{value: "value", request: again, fence: 8})
	select {
	case fence := <-me.granted:
		if fence != 8 {
			t.Errorf("fence %d, want 8", fence)
		}
	default:
		t.Error("the grant that answers the request is not there")
	}
}

func TestHalfIsNoMajority(t *testing.T) {
	for nodes, want := range map[int]int{3: 2, 4: 3, 5: 3, 6: 4, 7: 4} {
		if got := quorum(nodes); got != want {
			t.Errorf("of %d nodes %d are a majority, want %d", nodes, got, want)
		}
	}
}

// A lateContext is over by its deadline and not yet by Done: sockets, which have the same deadline, are a moment ahead.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// A subscription that fails because the wait is over does not say that the server is down.
func TestASubscriptionEndsWithTheWait(t *testing.T) {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer func() { _ = c.Close() }()
	w := newWakers(c, slog.New(slog.DiscardHandler))
	defer func() { _ = w.close() }()
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(gone) })
	_, _, err := w.join(lateContext{ctx, time.Now()}, "channel")
	if !errors.Is(err, gone) || errors.Is(err, lock.ErrDown) {
		t.Errorf("err = %v, want the cause of the end of the wait alone", err)
	}
}

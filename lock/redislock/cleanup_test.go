package redislock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// A caller that stops waiting while its request is on its way leaves nothing behind, although the request arrives after
// the release that was sent for it.
func TestACancelledRequestLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	sets := func(c redis.UniversalClient) string {
		_, after, _ := strings.Cut(c.Info(t.Context(), "commandstats").Val(), "cmdstat_set:calls=")
		calls, _, _ := strings.Cut(after, ",")
		return calls
	}
	test := func(name, key string, open func(testing.TB, redis.UniversalClient, redislock.SetNXOptions) lock.Locker) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stacktest.Redis(t)
			c := client(t, s)
			p, through := wired(t, s)
			l := open(t, through, redislock.SetNXOptions{Lease: time.Minute})
			_ = acquire(t, l, "k").Release()
			before := sets(c)
			request := p.Set(wire.Trap{On: wire.ToServer, Match: wire.Contains("{k}"), Do: wire.Hold})
			gone := errors.New("the caller went away")
			ctx, cancel := context.WithCancelCause(t.Context())
			got := make(chan error, 1)
			go func() {
				_, err := l.Acquire(ctx, "k", lock.Options{})
				got <- err
			}()
			<-request.Sprung()
			cancel(gone)
			if name == "setnx-del" { // it cannot undo what it asked for, and waits for the answer, for a second
				request.Release()
			}
			err := <-got
			if name == "setnx-del" && errors.Is(err, lock.ErrDown) {
				t.Skip("a busy computer: the second was over")
			}
			if !errors.Is(err, gone) || errors.Is(err, lock.ErrDown) {
				t.Errorf("err = %v, want the cause of the wait's end", err)
			}
			request.Release()
			eventually(t, "the request was done", func() bool { return sets(c) != before })
			eventually(t, "the key is gone", func() bool { return c.Exists(t.Context(), key).Val() == 0 })
		})
	}
	for _, v := range variants {
		test(v.name, v.name+":{k}", v.open)
	}
	test("setnx", "lock:{k}", func(t testing.TB, c redis.UniversalClient, o redislock.SetNXOptions) lock.Locker {
		return closer(t, redislock.NewSetNX(c, o))
	})
}

// A client that repeats by itself what got no answer must not repeat what a lock asks.
func TestLostRepliesWithAClientThatRepeats(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	s := stacktest.Redis(t)
	p, err := wire.Listen(s.Addr, wire.Redis())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := closer(t, redis.NewClient(&redis.Options{Addr: p.Addr(), ContextTimeoutEnabled: true, MaxRetries: 3}))
	lostReplies(t, c, client(t, s), p)
}

// lostReplies lets the server do each command of each lock, and loses the reply.
func lostReplies(t *testing.T, c, observer redis.UniversalClient, proxies ...*wire.Proxy) {
	lose := func(t *testing.T, match func([]byte) bool) []*wire.Snare {
		var all []*wire.Snare
		for _, p := range proxies {
			all = append(all, p.Set(wire.Trap{Match: match, Do: wire.CutReply}))
		}
		t.Cleanup(func() {
			for _, s := range all {
				s.Release()
			}
		})
		return all
	}
	for name, l := range all(t, c) {
		key := "lost-reply-" + name
		ours := wire.Contains("{" + key + "}")
		_ = acquire(t, l, key).Release() // connects and loads the scripts
		t.Run(name+" release", func(t *testing.T) {
			lease := acquire(t, l, key)
			last := ours
			if name == "setnx-watch" {
				last = wire.Contains("exec\r\n")
			}
			lose(t, last)
			if err := lease.Release(); !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrLost) {
				t.Errorf("%v, want ErrDown: the release was done, and nothing was lost", err)
			}
			eventually(
				t, "it is free",
				func() bool { return observer.Exists(t.Context(), name+":{"+key+"}").Val() == 0 },
			)
		})
		t.Run(name+" acquire", func(t *testing.T) {
			// Another key: the release above may still be repeated, and the trap is for one command.
			key := "lost-acquire-" + name
			lose(t, wire.Contains("{"+key+"}"))
			lease, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("%v, %v, want ErrDown", lease, err)
			}
			if name != "setnx-del" { // which cannot know whose key it is, as it says
				eventually(
					t, "nothing is left",
					func() bool { return observer.Exists(t.Context(), name+":{"+key+"}").Val() == 0 },
				)
			}
		})
	}
	t.Run("renewal", func(t *testing.T) {
		const term = 6 * time.Second
		w := closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{Lease: term}))
		lease := acquire(t, w, "lost-renewal")
		lost := lose(t, wire.Contains("{lost-renewal}"))
		left := func() time.Duration { return observer.PTTL(t.Context(), "watchdog:{lost-renewal}").Val() }
		eventually(t, "the reply of a renewal is lost", func() bool {
			return slices.ContainsFunc(lost, func(s *wire.Snare) bool {
				select {
				case <-s.Sprung():
					return true
				default:
					return false
				}
			})
		})
		// It asks again soon. The renewal after that is due when a third of the lease is over.
		eventually(t, "a quarter of the lease is over", func() bool { return left() < term*3/4 })
		eventually(t, "it is renewed again", func() bool { return left() > term*3/4 })
		if err := lease.Err(); err != nil {
			t.Errorf("the lease was lost: %v", err)
		}
	})
	t.Run("eviction", func(t *testing.T) {
		w := closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{}))
		held := acquire(t, w, "lost-eviction")
		fence, err := lock.Evict(t.Context(), w, "lost-eviction") // loads the script
		if err != nil || fence <= held.Fence() {
			t.Fatal(fence, err)
		}
		held = acquire(t, w, "lost-eviction")
		next := acquireLater(t, w, "lost-eviction")
		eventually(t, "the next one queues up", func() bool { return len(inspect(t, w, "lost-eviction").Waiters) == 1 })
		lose(t, wire.Contains("{lost-eviction}"))
		if _, err := lock.Evict(t.Context(), w, "lost-eviction"); !errors.Is(err, lock.ErrDown) {
			t.Errorf("%v, want ErrDown", err)
		}
		lease := <-next
		if lease == nil {
			t.FailNow()
		}
		if err := lease.Release(); err != nil {
			t.Errorf("the next holder was evicted as well, by the repetition: %v", err)
		}
		if lease.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", lease.Fence(), held.Fence())
		}
	})
}

package redislock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

// A turnstile is the scripts of the locks on a server whose clock stands still until the test moves it.
type turnstile struct {
	*testing.T
	server *miniredis.Miniredis
	client redis.UniversalClient
	now    time.Time
	w      *Watchdog
	asked  int
}

func newTurnstile(t *testing.T) *turnstile {
	s := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = c.Close() })
	w := NewWatchdog(c, WatchdogOptions{Lease: time.Minute})
	t.Cleanup(func() { _ = w.Close() })
	q := &turnstile{T: t, server: s, client: c, now: time.Unix(1_800_000_000, 1000), w: w}
	s.SetTime(q.now)
	return q
}

func (q *turnstile) pass(d time.Duration) {
	q.now = q.now.Add(d)
	q.server.SetTime(q.now)
	q.server.FastForward(d)
}

// enter asks and queues up, and returns the fence, or who holds the lock.
func (q *turnstile) enter(who string) (fence uint64, holder string) {
	q.Helper()
	q.asked++
	reply, err := run(q.Context(), q.client, q.w.enter, q.w.names("k"),
		"p:1 "+who, time.Minute.Milliseconds(), grantLease.Milliseconds(), q.asked).Result()
	if err != nil {
		q.Fatal(err)
	}
	granted, err := parseGranted("k", reply)
	var held *lock.HeldError
	if err != nil && !errors.As(err, &held) {
		q.Fatal(err)
	} else if err != nil {
		holder = held.Holder
	}
	return uint64(granted), holder
}

func (q *turnstile) leave(who string) (what int) {
	q.Helper()
	what, err := run(q.Context(), q.client, q.w.leave, q.w.names("k"), "p:1 "+who, grantLease.Milliseconds()).Int()
	if err != nil {
		q.Fatal(err)
	}
	return what
}

// holds wants the lock to be had by who; "" for nobody.
func (q *turnstile) holds(what, who string) {
	q.Helper()
	value, _ := q.server.Get("watchdog:{k}")
	if got := ownerOf(value); got != who {
		q.Errorf("%s: %q has the lock, want %q", what, got, who)
	}
}

func (q *turnstile) waits(what string, who ...string) {
	q.Helper()
	var got []string
	if list, err := q.server.List("watchdog:{k}:queue"); err == nil {
		for _, value := range list {
			got = append(got, ownerOf(value))
		}
	}
	if !slices.Equal(got, who) {
		q.Errorf("%s: %q wait, want %q", what, got, who)
	}
}

// First come, first served; whoever asks again keeps the place.
func TestTheQueueIsInTheOrderOfArrival(t *testing.T) {
	q := newTurnstile(t)
	q.enter("a")
	for _, who := range []string{"b", "c", "b", "d", "c"} {
		if fence, holder := q.enter(who); fence != 0 || holder != "a" {
			t.Errorf("%s: fence %d, held by %q", who, fence, holder)
		}
	}
	q.waits("all have asked", "b", "c", "d")
	q.asked = -1 // of a request that does not queue up
	if fence, holder := q.enter("hasty"); fence != 0 || holder != "a" {
		t.Errorf("one that tries once: fence %d, held by %q", fence, holder)
	}
	q.waits("one has tried once", "b", "c", "d")
	if n := q.leave("c"); n != -1 {
		t.Errorf("a waiter that leaves: %d, want -1", n)
	}
	q.waits("c has left", "b", "d")
	q.holds("c has left", "a")
	if n := q.leave("a"); n != 1 {
		t.Errorf("the holder leaves: %d, want 1", n)
	}
	q.holds("a has left", "b")
	q.waits("a has left", "d")
	q.leave("b")
	q.leave("d")
	q.holds("all have left", "")
	if n := q.leave("d"); n != 0 {
		t.Errorf("nobody leaves: %d, want 0", n)
	}
}

// A waiter that has not asked for five seconds is dead, and the lock goes to the next one.
func TestTheDeadAreNotGranted(t *testing.T) {
	for silent, alive := range map[time.Duration]bool{
		4999 * time.Millisecond: true, 5 * time.Second: false, time.Minute - time.Second: false,
	} {
		q := newTurnstile(t)
		q.enter("a")
		q.enter("b")
		q.enter("c")
		q.pass(silent)
		q.enter("c")
		q.leave("a")
		q.holds(silent.String()+" after b asked last", map[bool]string{true: "b", false: "c"}[alive])
	}
}

// A lock whose lease ran out is the oldest waiter's. A newcomer that finds it free stands at the end.
func TestANewcomerDoesNotPassTheQueue(t *testing.T) {
	q := newTurnstile(t)
	first, _ := q.enter("a")
	q.pass(time.Minute - time.Second)
	q.enter("b")
	q.enter("c")
	q.pass(time.Second) // a's lease is over
	q.holds("expired", "")
	if fence, holder := q.enter("newcomer"); fence != 0 || holder != "b" {
		t.Errorf("the newcomer: fence %d, held by %q; want b to have it", fence, holder)
	}
	q.holds("the newcomer has asked", "b")
	q.waits("the newcomer has asked", "c", "newcomer")
	if fence, _ := q.enter("b"); fence <= first {
		t.Errorf("b finds its grant with fence %d after %d", fence, first)
	}
	// The first in the queue finds a free lock by itself, too.
	q.pass(time.Minute - time.Second)
	q.enter("c")
	q.enter("newcomer")
	q.pass(time.Second)
	if fence, _ := q.enter("c"); fence == 0 {
		t.Error("the first waiter asks, the lock is free, and it does not get it")
	}
	q.holds("c has asked", "c")
}

// A grant is short, because its waiter may have died. The lock then goes on to the next one.
func TestAGrantThatNobodyTakesIsShort(t *testing.T) {
	q := newTurnstile(t)
	q.enter("a")
	q.enter("b")
	q.enter("c")
	q.leave("a")
	q.holds("granted", "b")
	q.pass(grantLease)
	q.holds("not taken", "")
	q.enter("d")
	q.holds("asked for by d", "c")
}

// An owner whose reply was lost asks again: it has the lock, with the fence of before, for a whole lease.
func TestAskingAgainIsNoSecondAcquisition(t *testing.T) {
	q := newTurnstile(t)
	first, _ := q.enter("a")
	q.pass(time.Second)
	if again, _ := q.enter("a"); again != first {
		t.Errorf("fence %d, and then %d", first, again)
	}
	if ttl := q.server.TTL("watchdog:{k}"); ttl != time.Minute {
		t.Errorf("it lives for %v, want a whole lease", ttl)
	}
}

// Two acquisitions within one microsecond have different fences, with room between them for local holders.
func TestFencesGrowWhileTheClockStandsStill(t *testing.T) {
	q := newTurnstile(t)
	var last uint64
	for range 3 {
		fence, _ := q.enter("a")
		if last != 0 && fence != last+64 {
			t.Errorf("watchdog: fence %d after %d", fence, last)
		}
		last = fence
		q.leave("a")
	}
	l := NewSetNX(q.client, SetNXOptions{})
	t.Cleanup(func() { _ = l.Close() })
	last = 0
	for range 3 {
		lease, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
		if err != nil {
			t.Fatal(err)
		}
		fence := uint64(lease.Fence())
		if last != 0 && fence != last+1 {
			t.Errorf("setnx: fence %d after %d", fence, last)
		}
		last = fence
		if _, err := l.Acquire(t.Context(), "k", lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("setnx: a held key: %v, want ErrHeld", err)
		}
		_ = lease.Release()
	}
}

// Only the holder's value renews and releases.
func TestOnlyTheHolderRenewsAndReleases(t *testing.T) {
	q := newTurnstile(t)
	q.enter("a")
	renew := func(who string) int {
		n, err := run(t.Context(), q.client, q.w.renew, q.w.names("k")[:1], "p:1 "+who, time.Hour.Milliseconds()).Int()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := renew("b"); n != -1 || q.server.TTL("watchdog:{k}") != time.Minute {
		t.Errorf("another renews: %d, and it lives for %v", n, q.server.TTL("watchdog:{k}"))
	}
	if n := renew("a"); n != 1 || q.server.TTL("watchdog:{k}") != time.Hour {
		t.Errorf("the holder renews: %d, and it lives for %v", n, q.server.TTL("watchdog:{k}"))
	}
	q.leave("a")
	if n := renew("a"); n != 0 {
		t.Errorf("renewed when it is free: %d", n)
	}
	release := redisscript.New(releaseSource)
	q.server.Set("lock:{k}", "mine")
	for _, row := range []struct {
		value string
		want  int
	}{{"other", -1}, {"mine", 1}, {"mine", 0}} {
		n, err := run(t.Context(), q.client, release, []string{"lock:{k}"}, row.value).Int()
		if err != nil || n != row.want {
			t.Errorf("released by %s: %d, %v; want %d", row.value, n, err, row.want)
		}
	}
}

// A listener notes whether requests to enter ask for a place in the queue.
type listener struct {
	enter string // digest

	mu     sync.Mutex
	queued []bool
}

func (*listener) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*listener) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *listener) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); args[0] == "evalsha" && args[1] == l.enter {
			l.mu.Lock()
			l.queued = append(l.queued, fmt.Sprint(args[len(args)-1]) != "0")
			l.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

// A waiter queues up when it would hear of a grant, and not before.
func TestAFirstTryDoesNotQueueUp(t *testing.T) {
	q := newTurnstile(t)
	q.enter("a")
	heard := &listener{enter: q.w.enter.Digest}
	q.client.AddHook(heard)
	got := make(chan error, 1)
	go func() {
		lease, err := q.w.Acquire(t.Context(), "k", lock.Options{Owner: "b"})
		if err == nil {
			err = lease.Release()
		}
		got <- err
	}()
	for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
		if list, err := q.server.List("watchdog:{k}:queue"); err == nil && len(list) == 1 {
			break
		}
	}
	q.leave("a")
	if err := <-got; err != nil {
		t.Error(err)
	}
	heard.mu.Lock()
	defer heard.mu.Unlock()
	if len(heard.queued) < 2 || heard.queued[0] || !heard.queued[1] {
		t.Errorf("asked for a place: %v, want the second request to be the first that does", heard.queued)
	}
}

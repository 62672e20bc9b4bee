package redislock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/redislock/internal/request"
)

// This file runs Watchdog as it is, with its scripts and its client, on a network in which messages are late and lost,
// while clients crash. The server is a Redis in this process. All of it is in virtual time, so a storm of a minute
// takes milliseconds, and hundreds of them are tried.

// A weather is the network between the clients and the server.
type weather struct {
	redis *miniredis.Miniredis

	mu   sync.Mutex
	draw *rand.Rand
	calm bool       // messages are neither late nor lost any more
	cut  []net.Conn // nothing arrives on them any more, and neither end is told
}

// latest is how late a message is at most: longer than a grant lasts.
const latest = 9 * time.Second

// fate says what becomes of a message.
func (w *weather) fate() (late time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	late = time.Millisecond
	if w.calm {
		return late, false
	}
	switch n := w.draw.IntN(100); {
	case n < 3:
		return late, true
	case n < 10:
		late = time.Duration(w.draw.Int64N(int64(latest)))
	case n < 25:
		late = time.Duration(w.draw.Int64N(int64(latest / 6)))
	}
	return late, false
}

// dial connects a client.
func (w *weather) dial(context.Context, string, string) (net.Conn, error) {
	client, near := net.Pipe()
	far, err := w.redis.Dial()
	if err != nil {
		return nil, err
	}
	go w.carry(far, near)
	go w.carry(near, far)
	return client, nil
}

// carry carries messages in one direction, in their order. It ends with the connection. What a client has sent arrives
// even if the client has closed the connection since.
func (w *weather) carry(to, from net.Conn) {
	type message struct {
		text []byte
		due  time.Time
	}
	sent := make(chan message, 1000)
	go func() {
		defer func() { _ = errors.Join(to.Close(), from.Close()) }()
		for m := range sent {
			time.Sleep(time.Until(m.due))
			if _, err := to.Write(m.text); err != nil {
				break
			}
		}
	}()
	defer close(sent)
	b := make([]byte, 8<<10)
	for {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		late, lost := w.fate()
		if lost { // and all that comes behind it
			w.mu.Lock()
			w.cut = append(w.cut, from)
			w.mu.Unlock()
			_, _ = io.Copy(io.Discard, from)
			return
		}
		sent <- message{slices.Clone(b[:n]), time.Now().Add(late)}
	}
}

// clear ends the storm. Connections on which nothing arrives any more break.
func (w *weather) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = true
	for _, c := range w.cut {
		_ = c.Close()
	}
}

// A process is a client of the lock.
type process struct {
	client *redis.Client
	lock   *Watchdog
}

func (w *weather) process(lease time.Duration) *process {
	c := redis.NewClient(&redis.Options{
		Dialer: w.dial, DialerRetries: 1, ContextTimeoutEnabled: true, MaxRetries: -1, Protocol: 2,
		DisableIdentity: true, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second, ConnMaxIdleTime: -1,
		// It would resolve the address, which is none.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	return &process{c, NewWatchdog(c, WatchdogOptions{Lease: lease, MaxHold: time.Hour})}
}

func (p *process) close() { _ = errors.Join(p.lock.Close(), p.client.Close()) }

// A witness watches the holders.
type witness struct {
	mu     sync.Mutex
	holder *lock.Lease
	last   lock.Fence
	served []string
	wrong  []error
}

func (w *witness) report(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Errorf(format, args...))
}

// hold notes a new holder. An earlier one may still work when its lease has run out by its own clock.
func (w *witness) hold(who string, l *lock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.holder; h != nil && h.Err() == nil && time.Now().Before(h.Until()) {
		w.report("two holders")
	}
	if l.Fence() <= w.last {
		w.report("fence %d after %d", l.Fence(), w.last)
	}
	w.holder, w.last = l, max(w.last, l.Fence())
	w.served = append(w.served, who)
}

// end notes that a holder is about to release.
func (w *witness) end(l *lock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holder == l {
		w.holder = nil
	}
}

// storm lets three clients acquire, wait, give up, work, crash and release in a storm, and acquire once more after it.
// It returns what went wrong, and how often the lock was held.
func storm(seed uint64) (holds int, err error) {
	const lease = 6 * time.Second
	draw := rand.New(rand.NewPCG(seed, 1))
	redis := miniredis.NewMiniRedis()
	redis.ClockTTL(true)
	defer redis.Close()
	w := &weather{redis: redis, draw: rand.New(rand.NewPCG(seed, 2))}
	seen := new(witness)
	var clients [3]*process
	var all sync.WaitGroup
	for i := range clients {
		own := rand.New(rand.NewPCG(draw.Uint64(), 3))
		seconds := func(n int) time.Duration { return time.Duration(own.IntN(n*1000)) * time.Millisecond }
		clients[i] = w.process(lease)
		all.Go(func() {
			for range 5 {
				time.Sleep(seconds(3))
				ctx, cancel := context.WithTimeout(context.Background(), time.Second+seconds(30))
				l, err := clients[i].lock.Acquire(ctx, "k", lock.Options{TryOnce: own.IntN(8) == 0})
				cancel()
				if err != nil {
					continue
				}
				seen.hold("", l)
				time.Sleep(seconds(1 + own.IntN(8)))
				seen.end(l)
				if own.IntN(5) == 0 { // it crashes
					l.Abandon()
					clients[i].close()
					clients[i] = w.process(lease)
					continue
				}
				_ = l.Release()
			}
		})
	}
	all.Wait()
	w.clear()
	time.Sleep(latest + lease + grantLease) // what was late has come, what it acquired has ended, the dead are known
	holds = len(seen.served)
	calm(clients[:], seen, func(l *lock.Lease) { _ = l.Release() })
	calm(clients[:], seen, func(l *lock.Lease) { // crashes
		l.Abandon()
		redis.SetTTL("watchdog:{k}", work)
	})
	for _, c := range clients {
		c.close()
	}
	if left := redis.Keys(); !slices.Equal(left, []string{"watchdog:{k}:fence"}) {
		seen.report("left: %q", left)
	}
	return holds, errors.Join(seen.wrong...)
}

const (
	work = 100 * time.Millisecond // of each, after the storm
	dead = 6 * time.Second        // a waiter that has not asked for this time has crashed
)

// calm lets each client acquire twice, in a known order, behind a waiter that has crashed. Each is served in its turn,
// as soon as the one before it releases. End ends the first lease.
func calm(clients []*process, seen *witness, end func(*lock.Lease)) {
	seen.served = nil
	var want []string
	var all sync.WaitGroup
	var began time.Time // the first lease has ended
	for n := range 2 * len(clients) {
		who, w := fmt.Sprint(n), clients[n%len(clients)].lock
		want = append(want, who)
		all.Go(func() {
			l, err := w.Acquire(context.Background(), "k", lock.Options{})
			if err != nil {
				seen.report("after the storm: %w", err)
				return
			}
			seen.hold(who, l)
			if n > 0 {
				time.Sleep(work)
				seen.end(l)
				_ = l.Release()
				return
			}
			_, _, _ = w.request(context.Background(), w.attempt("k", lock.Options{}), 1) // and never again
			time.Sleep(dead)
			seen.end(l)
			began = time.Now()
			end(l)
		})
		time.Sleep(work / 10)
	}
	all.Wait()
	// A waiter asks whether a crashed holder's key is free.
	if took := time.Since(began); took > time.Duration(len(want)+2)*work+request.Recheck {
		seen.report("all were served only after %v", took)
	}
	if !slices.Equal(seen.served, want) {
		seen.report("served in the order %v", seen.served)
	}
}

// In no storm are there two holders, and the fences grow. When it is over, all are served at once and in their order,
// and nothing is left.
func TestWatchdogInAStorm(t *testing.T) {
	t.Parallel()
	seeds, holds := servertest.Rounds(20, 10), 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			n, err := storm(uint64(seed))
			if holds += n; err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
		if t.Failed() {
			return
		}
	}
	if holds < 3*seeds {
		t.Errorf("%d holds in %d storms: this shows little", holds, seeds)
	}
	t.Logf("%d holds in %d storms", holds, seeds)
}

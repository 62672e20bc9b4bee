package redislock

import (
	"context"
	"errors"
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
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/servertest"
)

// This file runs Watchdog as it is, with its scripts and its client, on a network in which messages are late and lost,
// while clients crash. The server is a Redis in this process. All of it is in virtual time, so a storm of a minute
// takes milliseconds.

// A weather is the network between the clients and the server.
type weather struct {
	redis *miniredis.Miniredis

	mu   sync.Mutex
	draw *rand.Rand
}

// latest is how late a message is at most: longer than a grant lasts.
const latest = 9 * time.Second

// fate says what becomes of a message.
func (w *weather) fate() (late time.Duration, lost bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n := w.draw.IntN(100); {
	case n < 3:
		return 0, true
	case n < 10:
		return time.Duration(w.draw.Int64N(int64(latest))), false
	case n < 25:
		return time.Duration(w.draw.Int64N(int64(latest / 6))), false
	}
	return time.Millisecond, false
}

// A process is the network of one client.
type process struct {
	*weather
	mu    sync.Mutex
	conns []net.Conn
	over  bool
}

func (p *process) dial(context.Context, string, string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return nil, net.ErrClosed
	}
	client, near := net.Pipe()
	far, err := p.redis.Dial()
	if err != nil {
		return nil, err
	}
	p.conns = append(p.conns, client)
	go p.carry(far, near)
	go p.carry(near, far)
	return client, nil
}

// end breaks the connections before the lock is closed: its Close waits for the mutex of a subscription that is being
// made, and a wait for a mutex stops the virtual time.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for _, conn := range p.conns {
		_ = conn.Close()
	}
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
			_, _ = io.Copy(io.Discard, from)
			return
		}
		sent <- message{slices.Clone(b[:n]), time.Now().Add(late)}
	}
}

// watchdog opens a lock with a client of its own, as another process has.
func (w *weather) watchdog(lease time.Duration) (l *Watchdog, closeAll func()) {
	p := &process{weather: w}
	c := redis.NewClient(&redis.Options{
		Dialer: p.dial, DialerRetries: 1, ContextTimeoutEnabled: true, MaxRetries: -1, Protocol: 2,
		DisableIdentity: true, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second, ConnMaxIdleTime: -1,
		// It would resolve the address, which is none.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	l = NewWatchdog(c, WatchdogOptions{Lease: lease, MaxHold: time.Hour})
	return l, func() {
		p.end()
		_ = errors.Join(l.Close(), c.Close())
	}
}

// hold works until it is done or the lease is lost.
func hold(l *lock.Lease, work time.Duration) locktest.Hold {
	from := time.Now()
	select {
	case <-l.Done():
	case <-time.After(work):
	}
	start := time.Duration(from.UnixNano())
	return locktest.Hold{Key: l.Key(), Fence: l.Fence(), From: start, To: start + time.Since(from)}
}

// storm lets three clients acquire, wait, give up, work, crash and release. It returns the holds.
func storm(seed uint64) []locktest.Hold {
	const lease = 6 * time.Second
	w := &weather{redis: miniredis.NewMiniRedis(), draw: rand.New(rand.NewPCG(seed, 2))}
	w.redis.ClockTTL(true)
	defer w.redis.Close()
	var holds [3][]locktest.Hold
	var all sync.WaitGroup
	for i := range uint64(3) {
		own := rand.New(rand.NewPCG(seed, 3+i))
		seconds := func(n int) time.Duration { return time.Duration(own.IntN(n*1000)) * time.Millisecond }
		all.Go(func() {
			dog, closeAll := w.watchdog(lease)
			defer func() { closeAll() }()
			for range 5 {
				time.Sleep(seconds(3))
				ctx, cancel := context.WithTimeout(context.Background(), time.Second+seconds(30))
				l, err := dog.Acquire(ctx, "k", lock.Options{TryOnce: own.IntN(8) == 0})
				cancel()
				if err != nil {
					continue
				}
				holds[i] = append(holds[i], hold(l, seconds(1+own.IntN(8))))
				if own.IntN(5) > 0 {
					_ = l.Release()
					continue
				}
				l.Abandon() // it crashes
				closeAll()
				dog, closeAll = w.watchdog(lease)
			}
		})
	}
	all.Wait()
	time.Sleep(time.Minute) // what is late comes, is answered late, and wakes a waiter late
	return slices.Concat(holds[:]...)
}

// In no storm are there two holders, and the fences grow.
func TestWatchdogInAStorm(t *testing.T) {
	t.Parallel()
	seeds, holds := servertest.Rounds(20, 10), 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			history := storm(uint64(seed))
			holds += len(history)
			if err := locktest.Overlaps(history, true); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	if holds < 3*seeds {
		t.Errorf("%d holds in %d storms: this shows little", holds, seeds)
	}
	t.Logf("%d holds in %d storms", holds, seeds)
}

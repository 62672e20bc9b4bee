package redislock

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// grants hears what is granted to the waiters of this process: one subscription for all of them, made when somebody first waits.
type grants struct {
	client  redis.UniversalClient
	channel string
	log     *slog.Logger

	mu      sync.Mutex
	pubsub  *redis.PubSub
	ready   chan struct{}      // closed when the server has confirmed the subscription
	waiters map[string]*waiter // by value
	reader  sync.WaitGroup
	stop    context.CancelFunc
	closed  bool
}

func newGrants(c redis.UniversalClient, process string, log *slog.Logger) *grants {
	return &grants{
		client: c, channel: "watchdog:" + process, log: log,
		ready: make(chan struct{}), waiters: make(map[string]*waiter),
	}
}

// A waiter is one acquisition that asks until it is granted the lock.
type waiter struct {
	ask  uint64          // the number of its last ask; a grant that answers another one is stale
	come chan lock.Fence // where the grant comes. A NoFence says that grants may have been missed: ask
}

// expect makes a waiter known.
func (g *grants) expect(value string) *waiter {
	w := &waiter{come: make(chan lock.Fence, 1)}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiters[value] = w
	return w
}

// next begins another ask of w, and returns its number. What was granted to the asks before counts no more: whether the
// lock is ours the server says in its answer. The waiter may have been stopped since, for longer than a grant lives.
func (g *grants) next(w *waiter) uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.ask++
	select {
	case <-w.come:
	default:
	}
	return w.ask
}

func (g *grants) forget(value string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.waiters, value)
}

// listening is whether a grant would be heard now.
func (g *grants) listening() bool {
	select {
	case <-g.ready:
		return true
	default:
		return false
	}
}

// listen subscribes if need be, and returns when the server has confirmed, or after recheck all the same: whoever waits also asks.
func (g *grants) listen(ctx context.Context) error {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return lock.Down("subscribe", errors.New("the lock is closed"))
	}
	if g.pubsub == nil {
		var reading context.Context
		reading, g.stop = context.WithCancel(context.Background())
		g.pubsub = g.client.Subscribe(reading, g.channel)
		g.reader.Go(func() { g.read(reading) })
	}
	g.mu.Unlock()
	unheard := time.NewTimer(recheck)
	defer unheard.Stop()
	select {
	case <-g.ready:
	case <-unheard.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// read hands out what is granted, until ctx ends. go-redis reconnects and subscribes anew by itself.
func (g *grants) read(ctx context.Context) {
	for ctx.Err() == nil {
		switch message, err := g.pubsub.Receive(ctx); m := message.(type) {
		case *redis.Message:
			if value, ask, fence, ok := parseGrant(m.Payload); ok {
				g.tell(value, ask, fence)
			}
		case *redis.Subscription:
			select {
			case <-g.ready: // made anew after a broken connection
			default:
				close(g.ready)
			}
		default:
			if err != nil && ctx.Err() == nil {
				g.log.Warn("lock: subscription broke", "err", err)
				g.alarm()
				_ = lock.Sleep(ctx, 100*time.Millisecond)
			}
		}
	}
}

// parseGrant reads a message of queue.lua: the value, the number of the ask that it answers, and the fence, a line
// each. An owner's name may have lines of its own.
func parseGrant(message string) (value string, ask uint64, fence lock.Fence, ok bool) {
	last := strings.LastIndexByte(message, '\n')
	middle := strings.LastIndexByte(message[:max(last, 0)], '\n')
	if middle < 0 {
		return "", 0, 0, false
	}
	ask, err := strconv.ParseUint(message[middle+1:last], 10, 64)
	if err != nil {
		return "", 0, 0, false
	}
	minted, err := strconv.ParseUint(message[last+1:], 10, 64)
	return message[:middle], ask, lock.Fence(minted), err == nil
}

// tell hands a grant to the waiter whose last ask it answers.
func (g *grants) tell(value string, ask uint64, fence lock.Fence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w := g.waiters[value]; w != nil && w.ask == ask {
		ring(w.come, fence)
	}
}

// alarm makes everybody ask: what was granted meanwhile was not heard.
func (g *grants) alarm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.waiters {
		ring(w.come, lock.NoFence)
	}
}

// ring leaves fence in come, unless something is there already: either makes the waiter look.
func ring(come chan lock.Fence, fence lock.Fence) {
	select {
	case come <- fence:
	default:
	}
}

func (g *grants) close() error {
	g.mu.Lock()
	g.closed = true
	pubsub, stop := g.pubsub, g.stop
	g.mu.Unlock()
	if pubsub == nil {
		return nil
	}
	stop()
	err := pubsub.Close()
	g.reader.Wait()
	return err
}

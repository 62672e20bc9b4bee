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
	ready   chan struct{} // closed when the server has confirmed the subscription
	waiters map[string]chan lock.Fence
	reader  sync.WaitGroup
	stop    context.CancelFunc
	closed  bool
}

func newGrants(c redis.UniversalClient, process string, log *slog.Logger) *grants {
	return &grants{
		client: c, channel: "watchdog:" + process, log: log,
		ready: make(chan struct{}), waiters: make(map[string]chan lock.Fence),
	}
}

// expect returns where the grant of value will come. A NoFence says that grants may have been missed: ask.
func (g *grants) expect(value string) <-chan lock.Fence {
	come := make(chan lock.Fence, 1)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiters[value] = come
	return come
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
			at := strings.LastIndexByte(m.Payload, '\n') // an owner's name may have one, too
			value, text := m.Payload[:max(at, 0)], m.Payload[at+1:]
			if fence, err := strconv.ParseUint(text, 10, 64); err == nil {
				g.tell(value, lock.Fence(fence))
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
				sleep(ctx, 100*time.Millisecond)
			}
		}
	}
}

func (g *grants) tell(value string, fence lock.Fence) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ring(g.waiters[value], fence)
}

// alarm makes everybody ask: what was granted meanwhile was not heard.
func (g *grants) alarm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, come := range g.waiters {
		ring(come, lock.NoFence)
	}
}

// ring leaves fence in come, unless something is there already: either makes the waiter look. A nil come is nobody.
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

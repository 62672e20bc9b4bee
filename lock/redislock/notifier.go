package redislock

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// A notifier delivers grants to the waiters of this process. All waiters share one subscription, which is made when the
// first of them waits.
type notifier struct {
	subscription
	channel string
	ready   chan struct{} // closed when the server has confirmed the subscription

	mu      sync.Mutex
	waiters map[string]*waiter // by value
}

func newNotifier(c redis.UniversalClient, process string, log *slog.Logger) *notifier {
	n := &notifier{
		channel: "watchdog:" + process, ready: make(chan struct{}), waiters: make(map[string]*waiter),
	}
	n.subscription = subscription{
		client: c, log: log, broken: n.wakeAll,
		confirmed: func(string) {
			if !n.subscribed() { // after each broken connection it must be confirmed again
				close(n.ready)
			}
		},
		message: func(_ context.Context, _ *redis.PubSub, m *redis.Message) {
			if value, request, fence, ok := parseGrant(m.Payload); ok {
				n.notify(value, request, fence)
			}
		},
	}
	return n
}

// A waiter is one acquisition that repeats its request until it is granted the lock.
type waiter struct {
	request uint64          // the number of its last request; a grant that answers an earlier request is stale
	granted chan lock.Fence // receives the fence of a grant, or NoFence if grants may have been missed: ask again
}

// add makes a waiter for the attempt with this value.
func (n *notifier) add(value string) *waiter {
	w := &waiter{granted: make(chan lock.Fence, 1)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiters[value] = w
	return w
}

// next starts another request of w, and returns its number. Grants of earlier requests no longer count, because the
// process may have been stopped for longer than a grant lasts. The reply to the new request shows whether the lock is
// ours.
func (n *notifier) next(w *waiter) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.request++
	select {
	case <-w.granted:
	default:
	}
	return w.request
}

func (n *notifier) remove(value string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.waiters, value)
}

// subscribed reports whether a grant would be received now.
func (n *notifier) subscribed() bool {
	select {
	case <-n.ready:
		return true
	default:
		return false
	}
}

// subscribe subscribes if there is no subscription yet. It returns when the server has confirmed it, or after
// recheck, when the waiter must repeat its request anyway.
func (n *notifier) subscribe(ctx context.Context) error {
	if _, err := n.open(n.channel); err != nil {
		return err
	}
	unconfirmed := time.NewTimer(recheck)
	defer unconfirmed.Stop()
	select {
	case <-n.ready:
	case <-unconfirmed.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// parseGrant parses a message of queue.lua: the value, the number of the request that it answers, and the fence, each
// in a line. The owner's name at the end of the value may itself contain line breaks.
func parseGrant(message string) (value string, request uint64, fence lock.Fence, ok bool) {
	last := strings.LastIndexByte(message, '\n')
	middle := strings.LastIndexByte(message[:max(last, 0)], '\n')
	if middle < 0 {
		return "", 0, 0, false
	}
	request, err := strconv.ParseUint(message[middle+1:last], 10, 64)
	if err != nil {
		return "", 0, 0, false
	}
	minted, err := strconv.ParseUint(message[last+1:], 10, 64)
	return message[:middle], request, lock.Fence(minted), err == nil
}

// notify delivers a grant to the waiter whose last request it answers.
func (n *notifier) notify(value string, request uint64, fence lock.Fence) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.waiters[value]; w != nil && w.request == request {
		w.wake(fence)
	}
}

// wakeAll makes all waiters repeat their requests, because grants may have been missed.
func (n *notifier) wakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.waiters {
		w.wake(lock.NoFence)
	}
}

// wake sends fence to the waiter, unless an earlier fence is still unread, which wakes the waiter, too.
func (w *waiter) wake(fence lock.Fence) {
	select {
	case w.granted <- fence:
	default:
	}
}

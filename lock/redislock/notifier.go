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

	mu      sync.Mutex
	waiters map[string]*waiter // by value
	now     *hearing
}

// A hearing is one subscription, from its request until the server refuses it.
type hearing struct {
	ready  chan struct{} // closed when the server has confirmed the subscription
	denied chan struct{} // closed when the server has refused it
	why    error         // the refusal; set before denied is closed
}

func newHearing() *hearing { return &hearing{ready: make(chan struct{}), denied: make(chan struct{})} }

// subscribed reports whether a grant would be received now.
func (h *hearing) subscribed() bool {
	select {
	case <-h.ready:
		return true
	default:
		return false
	}
}

func newNotifier(c redis.UniversalClient, process string, log *slog.Logger) *notifier {
	n := &notifier{
		channel: "watchdog:" + process, waiters: make(map[string]*waiter), now: newHearing(),
	}
	n.subscription = subscription{
		client: c, log: log,
		broken: n.wakeAll,
		confirmed: func(string) {
			if h := n.current(); !h.subscribed() { // after each broken connection it must be confirmed again
				close(h.ready)
			}
		},
		denied: func(_ context.Context, why error) {
			n.drop()
			n.mu.Lock()
			h := n.now
			n.now = newHearing() // the next waiter subscribes anew
			n.mu.Unlock()
			h.why = why
			close(h.denied)
			n.wakeAll()
		},
		message: func(_ context.Context, _ *redis.PubSub, m *redis.Message) {
			if g, ok := parseGrant(m.Payload); ok {
				n.notify(g)
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

// current returns the subscription, or the next one if there is none.
func (n *notifier) current() *hearing {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.now
}

// subscribe subscribes if there is no subscription yet. It returns when the server has confirmed or refused h, which
// the caller read before its last request, or after recheck, when the waiter must repeat its request anyway.
func (n *notifier) subscribe(ctx context.Context, h *hearing) error {
	if _, err := n.open(n.channel); err != nil {
		return err
	}
	unconfirmed := time.NewTimer(recheck)
	defer unconfirmed.Stop()
	select {
	case <-h.ready:
	case <-h.denied:
		return h.why
	case <-unconfirmed.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// A grant is a message of queue.lua.
type grant struct {
	value   string
	request uint64 // the number of the request that it answers
	fence   lock.Fence
}

// parseGrant parses a message: value, request and fence, each in a line. The owner's name at the end of the value may
// itself contain line breaks.
func parseGrant(message string) (g grant, ok bool) {
	last := strings.LastIndexByte(message, '\n')
	middle := strings.LastIndexByte(message[:max(last, 0)], '\n')
	if middle < 0 {
		return grant{}, false
	}
	request, err := strconv.ParseUint(message[middle+1:last], 10, 64)
	if err != nil {
		return grant{}, false
	}
	fence, err := strconv.ParseUint(message[last+1:], 10, 64)
	return grant{message[:middle], request, lock.Fence(fence)}, err == nil
}

// notify delivers a grant to the waiter whose last request it answers.
func (n *notifier) notify(g grant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.waiters[g.value]; w != nil && w.request == g.request {
		w.wake(g.fence)
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

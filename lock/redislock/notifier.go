package redislock

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// A notifier delivers grants to the waiters of this process. All waiters share one subscription, which is made when the
// first of them waits.
type notifier struct {
	subscription
	channel string
	hearing atomic.Bool // the subscription is confirmed, and has not broken since

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
		broken: func() {
			n.hearing.Store(false) // before wakeAll, which reaches everybody who read true
			n.wakeAll()
		},
		confirmed: func(string) {
			n.hearing.Store(true)
			if h := n.current(); !h.subscribed() { // after each broken connection it must be confirmed again
				close(h.ready)
			}
		},
		denied: func(_ context.Context, why error) {
			n.hearing.Store(false)
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
			if value, ok := strings.CutSuffix(m.Payload, "\nwanted"); ok {
				n.revoke(value)
			} else if g, ok := parseGrant(m.Payload); ok {
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

	wanted context.Context // of a lease that may be kept: ends when another caller wants the lock; nil: none
	revoke func()          // ends wanted
}

// add makes a waiter for the attempt with this value. With keep it also learns when another caller wants the lock.
func (n *notifier) add(value string, keep bool) *waiter {
	w := &waiter{granted: make(chan lock.Fence, 1), revoke: func() {}}
	if keep {
		w.wanted, w.revoke = context.WithCancel(context.Background())
	}
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

// hears reports whether messages arrive. If they cease to, every waiter added before is told.
func (n *notifier) hears() bool { return n.hearing.Load() }

// revoke tells the holder with this value that another caller wants its lock.
func (n *notifier) revoke(value string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.waiters[value]; w != nil {
		w.revoke()
	}
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
	others  bool // more callers wait
}

// parseGrant parses a message: value, request and fence, each in a line. A plus before the fence says that others wait.
// The owner's name at the end of the value may itself contain line breaks.
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
	fence, others := strings.CutPrefix(message[last+1:], "+")
	minted, err := strconv.ParseUint(fence, 10, 64)
	return grant{message[:middle], request, lock.Fence(minted), others}, err == nil
}

// notify delivers a grant to the waiter whose last request it answers.
func (n *notifier) notify(g grant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if w := n.waiters[g.value]; w != nil && w.request == g.request {
		if g.others {
			w.revoke()
		}
		w.wake(g.fence)
	}
}

// wakeAll makes all waiters repeat their requests, because grants may have been missed.
func (n *notifier) wakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.waiters {
		w.wake(lock.NoFence)
		w.revoke()
	}
}

// wake sends fence to the waiter, unless an earlier fence is still unread, which wakes the waiter, too.
func (w *waiter) wake(fence lock.Fence) {
	select {
	case w.granted <- fence:
	default:
	}
}

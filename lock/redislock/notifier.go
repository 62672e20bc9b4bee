package redislock

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock/internal/request"
)

// A notifier delivers grants to the waiters of this process.
type notifier struct {
	*request.Subscription
	mu      sync.Mutex
	waiters map[string]*waiter // by value
}

func newNotifier(c redis.UniversalClient, process string, log *slog.Logger) *notifier {
	n := &notifier{waiters: make(map[string]*waiter)}
	n.Subscription = request.NewSubscription(c, "watchdog:"+process, log, func(text string) {
		if g, ok := parseGrant(text); ok {
			n.notify(g)
		}
	})
	return n
}

// A waiter is one acquisition that repeats its request until it is granted the lock.
type waiter struct {
	request uint64          // the number of its last request; a grant that answers an earlier request is stale
	granted chan lock.Fence // receives the fence of a grant
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

// notify delivers a grant to the waiter whose last request it answers, unless that has one already.
func (n *notifier) notify(g grant) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w := n.waiters[g.value]
	if w == nil || w.request != g.request {
		return
	}
	select {
	case w.granted <- g.fence:
	default:
	}
}

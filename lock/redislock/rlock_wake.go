package redislock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// wakers wake the waiters of this process when a key is released. They share one connection, which is made when the
// first caller waits, and which subscribes to one channel per key.
type wakers struct {
	subscription

	// changing is used as a mutex; a goroutine that waits for it can give up when its ctx ends. It is held from a
	// change of keys until the request for the change was sent, so that no SUBSCRIBE overtakes an earlier UNSUBSCRIBE.
	changing chan struct{}

	mu   sync.Mutex
	keys map[string]*waker // by channel
}

func newWakers(c redis.UniversalClient, log *slog.Logger) *wakers {
	n := &wakers{changing: make(chan struct{}, 1), keys: make(map[string]*waker)}
	n.subscription = subscription{
		client: c, log: log, broken: n.wakeAll,
		confirmed: n.wakeAllOf, // releases before the confirmation were missed
		denied:    n.deny,
		message: func(ctx context.Context, pubsub *redis.PubSub, m *redis.Message) {
			if !n.wakeOneOf(m.Channel) {
				n.unsubscribe(ctx, pubsub, m.Channel)
			}
		},
	}
	return n
}

// A waker wakes the waiters for one key. The mutex of wakers guards waiters and the variable all.
type waker struct {
	waiters int
	one     chan struct{} // has a value if one waiter must try again; the waiter that receives it does so
	all     chan struct{} // closed to wake all waiters, and then replaced

	denied chan struct{} // closed when the server has refused the subscription
	why    error         // the refusal; set before denied is closed
}

// wakeOne wakes one waiter, or the next one to arrive. It does nothing if an earlier wake-up has not been received yet.
func (b *waker) wakeOne() {
	select {
	case b.one <- struct{}{}:
	default:
	}
}

// wakeAll wakes all waiters, or the next one to arrive.
func (b *waker) wakeAll() {
	close(b.all)
	b.all = make(chan struct{})
	if b.waiters == 0 {
		b.wakeOne()
	}
}

// wait returns when the caller must try again: when it was woken, or after remaining (if that is 0, after recheck).
// all is the channel that the caller read before its last request.
func (b *waker) wait(ctx context.Context, o lock.Options, all <-chan struct{}, remaining time.Duration) error {
	if remaining <= 0 {
		remaining = recheck // the key has no time limit: another program has changed it
	}
	timer := time.NewTimer(remaining)
	defer timer.Stop()
	select {
	case <-b.one:
		o.Woken()
	case <-all:
	case <-timer.C:
	case <-b.denied:
		return b.why
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// all returns the channel that is closed to wake all waiters of b. A waiter reads it before its request, so that it
// misses no wake-up after the reply.
func (n *wakers) all(b *waker) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return b.all
}

// join adds a waiter to the waker of a channel, and subscribes if there is no waker. all is for the waiter's first
// wait.
//
// Releases before the subscription is confirmed are missed, so the confirmation wakes all waiters. A waiter that joins
// others need not try again: if the key was released after its try, one of the others has been woken.
func (n *wakers) join(ctx context.Context, channel string) (b *waker, all <-chan struct{}, err error) {
	select {
	case n.changing <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	changed := func() { <-n.changing }
	b, pubsub, err := n.add(channel)
	if err != nil {
		changed()
		return nil, nil, err
	}
	all = n.all(b)
	if pubsub == nil {
		changed()
		return b, all, nil
	}
	err, unanswered := ask(ctx, nil, func() error {
		defer changed()
		return pubsub.Subscribe(ctx, channel)
	})
	if unanswered != nil {
		err = unanswered
	}
	if err != nil {
		n.leave(b)
		if waitOver(ctx) {
			return nil, nil, context.Cause(ctx) // the server may be up
		}
		return nil, nil, driver.Down("subscribe", err)
	}
	return b, all, nil
}

// add adds a waiter. If the caller must subscribe to the channel, add also returns the connection for that.
func (n *wakers) add(channel string) (*waker, *redis.PubSub, error) {
	pubsub, err := n.open()
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.keys[channel]; b != nil {
		b.waiters++
		return b, nil, nil
	}
	b := &waker{waiters: 1, one: make(chan struct{}, 1), all: make(chan struct{}), denied: make(chan struct{})}
	n.keys[channel] = b
	return b, pubsub, nil
}

// leave removes a waiter. The subscription stays until a message arrives while no caller waits, because a contended key
// usually gets its next waiter before that.
func (n *wakers) leave(b *waker) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b.waiters--
}

// wakeOneOf wakes one waiter for a channel, and reports whether there is one.
func (n *wakers) wakeOneOf(channel string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.keys[channel]
	if b == nil || b.waiters == 0 {
		return false
	}
	b.wakeOne()
	return true
}

func (n *wakers) wakeAllOf(channel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.keys[channel]; b != nil {
		b.wakeAll()
	}
}

// deny ends the waits of all waiters with the server's refusal of a subscription, because the reply does not name the
// channel. The next waiter subscribes anew.
func (n *wakers) deny(ctx context.Context, why error) {
	select {
	case n.changing <- struct{}{}: // a waiter that has the old connection has sent its request, and is denied, too
		defer func() { <-n.changing }()
	case <-ctx.Done():
		return
	}
	n.drop()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.keys {
		b.why = why
		close(b.denied)
	}
	clear(n.keys)
}

func (n *wakers) wakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.keys {
		b.wakeAll()
	}
}

// unsubscribe ends the subscription to a channel without waiters.
func (n *wakers) unsubscribe(ctx context.Context, pubsub *redis.PubSub, channel string) {
	select {
	case n.changing <- struct{}{}:
		defer func() { <-n.changing }()
	case <-ctx.Done():
		return
	}
	n.mu.Lock()
	b := n.keys[channel]
	wanted := b != nil && b.waiters > 0
	if !wanted {
		delete(n.keys, channel)
	} else {
		b.wakeOne() // a waiter has arrived since; the message would have woken it
	}
	n.mu.Unlock()
	if !wanted {
		_ = pubsub.Unsubscribe(ctx, channel) // after an error it is retried with the next message
	}
}

package redislock

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// bells wake the waiters of this process when a key is free. They have one connection for all keys, made when the first
// caller waits, and on it a subscription for each key that is waited for.
type bells struct {
	subscription

	// changing has room for one: whoever changes the subscriptions, from the map to what is sent. Otherwise a SUBSCRIBE
	// might overtake the UNSUBSCRIBE before it.
	changing chan struct{}

	mu   sync.Mutex
	keys map[string]*bell // by channel
}

func newBells(c redis.UniversalClient, log *slog.Logger) *bells {
	n := &bells{changing: make(chan struct{}, 1), keys: make(map[string]*bell)}
	n.subscription = subscription{
		client: c, log: log, broken: n.wakeAll,
		confirmed: n.wake, // what was released before this was not heard
		message: func(ctx context.Context, pubsub *redis.PubSub, m *redis.Message) {
			if !n.ring(m.Channel) {
				n.unsubscribe(ctx, pubsub, m.Channel)
			}
		},
	}
	return n
}

// A bell wakes the waiters for one key. The mutex of bells guards it.
type bell struct {
	waiters int
	one     chan struct{} // full: somebody is to ask; who takes it does
	all     chan struct{} // closed to wake all; then there is a new one
}

// ring wakes one waiter, or the next that comes. A ring that nobody has answered yet stands for this one, too: whoever
// answers it asks after both.
func (b *bell) ring() {
	select {
	case b.one <- struct{}{}:
	default:
	}
}

// wake wakes all waiters, or the next that comes.
func (b *bell) wake() {
	close(b.all)
	b.all = make(chan struct{})
	if b.waiters == 0 {
		b.ring()
	}
}

// wait returns when the caller is to ask again: when it was woken, or after remaining (if that is 0, recheck). all is
// what it got before it asked the last time.
func (b *bell) wait(ctx context.Context, o lock.Options, all <-chan struct{}, remaining time.Duration) error {
	if remaining <= 0 {
		remaining = recheck // the key has no time limit: somebody else has changed it
	}
	timer := time.NewTimer(remaining)
	defer timer.Stop()
	select {
	case <-b.one:
		o.Woken()
	case <-all:
	case <-timer.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// all returns what is closed when all who wait for b now are to ask.
func (n *bells) all(b *bell) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return b.all
}

// join adds a waiter to the bell of a channel, and subscribes if there was none. all is for its first wait.
//
// A release before the subscription stands is not heard; so the confirmation wakes all, too. A waiter that joins
// others need not ask again: if the key was released since it did, one of them has been woken for that.
func (n *bells) join(ctx context.Context, channel string) (b *bell, all <-chan struct{}, err error) {
	select {
	case n.changing <- struct{}{}:
		defer func() { <-n.changing }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	b, pubsub, err := n.add(channel)
	if err != nil {
		return nil, nil, err
	}
	all = n.all(b)
	if pubsub == nil {
		return b, all, nil
	}
	if err := pubsub.Subscribe(ctx, channel); err != nil {
		n.leave(b)
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		return nil, nil, lock.Down("subscribe", err)
	}
	return b, all, nil
}

// add adds a waiter. If the channel is to be subscribed to, it returns on what.
func (n *bells) add(channel string) (*bell, *redis.PubSub, error) {
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
	b := &bell{waiters: 1, one: make(chan struct{}, 1), all: make(chan struct{})}
	n.keys[channel] = b
	return b, pubsub, nil
}

// leave takes a waiter away. The subscription stays until a message comes that nobody waits for: the next waiter of a
// contended key comes sooner than that.
func (n *bells) leave(b *bell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b.waiters--
}

// ring wakes one waiter for a channel, and reports whether there is one.
func (n *bells) ring(channel string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.keys[channel]
	if b == nil || b.waiters == 0 {
		return false
	}
	b.ring()
	return true
}

// wake wakes all waiters for a channel.
func (n *bells) wake(channel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.keys[channel]; b != nil {
		b.wake()
	}
}

func (n *bells) wakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.keys {
		b.wake()
	}
}

// unsubscribe ends the subscription to a channel that nobody waits for.
func (n *bells) unsubscribe(ctx context.Context, pubsub *redis.PubSub, channel string) {
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
		b.ring() // somebody has come since, and would have been woken
	}
	n.mu.Unlock()
	if !wanted {
		_ = pubsub.Unsubscribe(ctx, channel) // otherwise it is tried again with the next message
	}
}

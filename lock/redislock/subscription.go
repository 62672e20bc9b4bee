package redislock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// A subscription is a connection that receives messages. The connection is made when it is first needed. go-redis
// reconnects and subscribes again after a failure.
type subscription struct {
	client redis.UniversalClient
	log    *slog.Logger

	// The callbacks are called one after the other until close. Messages are lost while the connection is broken and
	// until the server has confirmed the subscription. So when confirmed or broken is called, messages may have been
	// lost.
	message   func(ctx context.Context, pubsub *redis.PubSub, m *redis.Message)
	confirmed func(channel string)
	broken    func()
	// denied is called when the user lacks the right to a channel. Before it returns it must call drop, so that the
	// next open subscribes anew. No other callback follows.
	denied func(ctx context.Context, err error)

	opening sync.Mutex // or closing
	pubsub  *redis.PubSub
	reader  sync.WaitGroup
	stop    context.CancelFunc
	closed  bool
}

// open returns the connection. If there is none yet, open makes one that subscribes to channels. It does not wait for
// the server.
func (s *subscription) open(channels ...string) (*redis.PubSub, error) {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.closed {
		return nil, driver.Down("subscribe", errors.New("the lock is closed"))
	}
	if s.pubsub == nil {
		var reading context.Context
		reading, s.stop = context.WithCancel(context.Background())
		s.pubsub = s.client.Subscribe(reading) // without a channel this connects nothing
		pubsub := s.pubsub
		s.reader.Go(func() {
			if len(channels) > 0 {
				_ = pubsub.Subscribe(reading, channels...) // after an error, Receive subscribes
			}
			s.read(reading, pubsub)
		})
	}
	return s.pubsub, nil
}

func (s *subscription) read(ctx context.Context, pubsub *redis.PubSub) {
	for ctx.Err() == nil {
		switch heard, err := pubsub.Receive(ctx); heard := heard.(type) {
		case *redis.Message:
			s.message(ctx, pubsub, heard)
		case *redis.Subscription:
			s.confirmed(heard.Channel)
		default:
			if denied := deniedOf(err); denied != nil && ctx.Err() == nil {
				s.log.Warn("lock: subscription refused", "err", err)
				s.denied(ctx, denied)
				return
			}
			if err != nil && ctx.Err() == nil {
				s.log.Warn("lock: subscription broke", "err", err)
				s.broken()
				_ = driver.Sleep(ctx, 100*time.Millisecond) // the loop checks ctx
			}
		}
	}
}

// deniedOf returns a lock.ErrDenied if the server refused err's request because the user lacks a right, and otherwise
// nil.
func deniedOf(err error) error {
	if err == nil || errors.Is(err, lock.ErrDenied) {
		return err
	}
	if denied := refusal("redis", err); errors.Is(denied, lock.ErrDenied) {
		return denied
	}
	return nil
}

// drop ends the connection of the reader that calls it.
func (s *subscription) drop() {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.pubsub != nil && !s.closed {
		s.stop()
		_ = s.pubsub.Close()
		s.pubsub = nil
	}
}

// close ends the connection, and returns when no callback runs any more.
func (s *subscription) close() error {
	s.opening.Lock()
	s.closed = true
	pubsub, stop := s.pubsub, s.stop
	s.opening.Unlock()
	var err error
	if pubsub != nil {
		stop()
		err = pubsub.Close()
	}
	s.reader.Wait()
	return err
}

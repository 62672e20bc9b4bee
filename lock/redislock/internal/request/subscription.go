package request

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// Recheck is the longest time for which a waiter relies on a message.
const Recheck = time.Second

// A Subscription receives the messages of one channel for all waiters of this process, on one connection. The
// connection is made when the first of them waits. go-redis reconnects and subscribes again after a failure.
type Subscription struct {
	client  redis.UniversalClient
	channel string
	log     *slog.Logger
	message func(text string)

	mu     sync.Mutex
	now    *Hearing
	pubsub *redis.PubSub // nil: there is no connection
	stop   context.CancelFunc
	closed bool
	reader sync.WaitGroup // there may be two for a moment, because one that was refused lets the next one begin
}

// A Hearing is the time from the request for a subscription until messages may be lost.
//
// A waiter reads the current Hearing before its request. If the Hearing was confirmed by then, the waiter will receive
// a message about everything after its request, unless Over is closed. Otherwise it must request again after Await.
type Hearing struct {
	ready chan struct{} // closed when the server has confirmed the subscription
	over  chan struct{}
	err   error // the server's refusal, set before over is closed; nil: the connection broke
}

func newHearing() *Hearing { return &Hearing{ready: make(chan struct{}), over: make(chan struct{})} }

// Confirmed reports whether the server has confirmed the subscription.
func (h *Hearing) Confirmed() bool {
	select {
	case <-h.ready:
		return true
	default:
		return false
	}
}

// Over is closed when messages may be lost, because the connection broke or the server refused the subscription. All
// waiters must request again.
func (h *Hearing) Over() <-chan struct{} { return h.over }

// NewSubscription returns a Subscription. message is called for one message after the other, until Close.
func NewSubscription(
	c redis.UniversalClient, channel string, log *slog.Logger, message func(text string),
) *Subscription {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Subscription{client: c, channel: channel, log: log, message: message, now: newHearing()}
}

// Current returns the subscription, or the next one if there is none.
func (s *Subscription) Current() *Hearing {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

// Await subscribes if there is no subscription yet. It returns when the server has confirmed or refused h, or after
// Recheck, when the waiter must repeat its request anyway.
func (s *Subscription) Await(ctx context.Context, h *Hearing) error {
	if err := s.open(); err != nil {
		return err
	}
	unconfirmed := time.NewTimer(Recheck)
	defer unconfirmed.Stop()
	select {
	case <-h.ready:
	case <-h.over:
		return h.err
	case <-unconfirmed.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// open makes the connection if there is none. It does not wait for the server.
func (s *Subscription) open() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return lock.ErrClosed
	}
	if s.pubsub == nil {
		ctx, stop := context.WithCancel(context.Background())
		pubsub := s.client.Subscribe(ctx) // without a channel this connects nothing
		s.pubsub, s.stop = pubsub, stop
		s.reader.Go(func() {
			_ = pubsub.Subscribe(ctx, s.channel) // after an error, Receive subscribes
			s.read(ctx, pubsub)
		})
	}
	return nil
}

func (s *Subscription) read(ctx context.Context, pubsub *redis.PubSub) {
	for ctx.Err() == nil {
		received, err := pubsub.Receive(ctx)
		denied := Denied(err)
		switch received := received.(type) {
		case *redis.Message:
			s.message(received.Payload)
			continue
		case *redis.Subscription:
			s.confirm()
			continue
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case denied != nil:
			s.log.Warn("lock: subscription refused", "err", err)
			s.end(denied)
			return
		default:
			s.log.Warn("lock: subscription broke", "err", err)
			s.end(nil)
			_ = driver.Sleep(ctx, 100*time.Millisecond) // the loop checks ctx
		}
	}
}

func (s *Subscription) confirm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.now.Confirmed() {
		close(s.now.ready)
	}
}

// end ends the present Hearing. After a refusal it ends the connection, too, so that the next waiter subscribes anew.
// A Hearing that was not confirmed goes on when the connection breaks, because its waiters rely on nothing yet.
func (s *Subscription) end(refusal error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal == nil && !s.now.Confirmed() {
		return
	}
	s.now.err = refusal
	close(s.now.over)
	s.now = newHearing()
	if refusal != nil && !s.closed {
		s.stop()
		_ = s.pubsub.Close()
		s.pubsub = nil
	}
}

// Close ends the connection, and returns when message is not called any more.
func (s *Subscription) Close() error {
	s.mu.Lock()
	s.closed = true
	pubsub, stop := s.pubsub, s.stop
	s.mu.Unlock()
	var err error
	if pubsub != nil {
		stop()
		err = pubsub.Close()
	}
	s.reader.Wait()
	return err
}

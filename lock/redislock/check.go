package redislock

import (
	"context"
	"errors"

	"example.com/stock/lock"
)

// Check takes the key, queues up behind it, and passes the lock on.
func (w *Watchdog) Check(ctx context.Context, key string) error {
	one, two := w.attempt(key, lock.Options{Owner: "check"}), w.attempt(key, lock.Options{Owner: "check"})
	if _, err := w.request(ctx, one, 0); err != nil {
		return err
	}
	err := w.notifier.subscribe(ctx, w.notifier.current())
	if err == nil {
		err = ownership(call{w.renew, one.acquire.keys[:1], []any{one.value, w.o.Lease.Milliseconds()}}.
			run(ctx, w.client).Int())
	}
	if err == nil {
		_, err = w.request(ctx, two, 1)
	}
	if errors.Is(err, lock.ErrHeld) {
		err = nil // it is in the queue
	}
	err = errors.Join(err, one.free(ctx))
	detached(ctx, two.free)
	return err
}

// Check takes the key, subscribes as a waiter for it, and gives it back.
func (r *RLock) Check(ctx context.Context, key string) error {
	a := r.attempt(key, lock.Options{Owner: "check"})
	if _, err := a.request(ctx); err != nil {
		return err
	}
	err := ownership(call{r.renew, a.acquire.keys, a.acquire.args}.run(ctx, r.client).Int())
	if err == nil {
		if _, err = r.try(ctx, key, lock.Options{Owner: "check"}); errors.Is(err, lock.ErrHeld) {
			err = nil
		}
	}
	if err == nil {
		err = r.hear(ctx, key)
	}
	return errors.Join(err, a.free(ctx))
}

// hear subscribes to the channel of key, and returns when the server has confirmed or refused that.
func (r *RLock) hear(ctx context.Context, key string) error {
	w, all, err := r.wakers.join(ctx, channelOf(key))
	if err != nil {
		return err
	}
	defer r.wakers.leave(w)
	return w.wait(ctx, lock.Options{}, all, 0)
}

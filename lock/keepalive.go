package lock

import (
	"context"
	"errors"
	"time"
)

// A Renewal is the time limit of a lease at its server, and how it is renewed. A lease without renewal and a watchdog
// differ only in Every.
type Renewal struct {
	TTL   time.Duration // the server frees the key this long after the last request that it granted
	Every time.Duration // time between renewals; 0: never renewed. A third of TTL leaves two retries.
	// First, if not 0, is the TTL until the first renewal, which is then due after a third of First
	First time.Duration
	Max   time.Duration // longest hold, even if all renewals succeed; 0: no limit
	// Renew requests another TTL; an ErrExpired or ErrTaken is final, other errors are retried
	Renew func(ctx context.Context) error
}

// Valid returns how long a holder may rely on a granted TTL: 1 % and 2 ms less than the TTL, because clocks run at
// different rates and expiry is rounded. Redlock does the same
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
func Valid(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// KeepAlive is for drivers. It renews the lease as r says, and reports a loss. Release ends the renewals and waits for
// them, so that none continues after the lease, unless a renewal ignores its ctx for longer than half of
// ReleaseTimeout. sent is a time before the acquiring request was sent. A driver calls KeepAlive at most once, before
// the caller has the lease.
//
// The goroutine starts only when the first renewal is due or the lease may end. Nearly every lease is released
// earlier and needs none.
func (l *Lease) KeepAlive(sent time.Time, r Renewal) {
	l.until = r.end(r.begin(sent))
	l.kept = make(chan struct{})
	l.due = time.AfterFunc(time.Until(r.due(sent)), func() {
		defer close(l.kept)
		renewing, stop := context.WithCancel(l.held)
		defer stop()
		l.mu.Lock()
		if l.stop = stop; l.retired {
			stop()
		}
		l.mu.Unlock()
		l.keep(renewing, sent, r)
	})
}

// stopRenewing lets the lease run out: it is still held until its time limit passes or it is released. Do calls it
// when its ctx ends. It has no effect on a lease that is not renewed or has no time limit.
func (l *Lease) stopRenewing() {
	if l.of != nil {
		l.of.retire()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired = true; l.stop != nil {
		l.stop()
	}
}

// keep renews the lease until renewing ends. It returns when the lease has ended.
//
// The holder's time limit uses the monotonic clock and counts from a time before the granted request was sent. So the
// holder's limit passes before the server's limit, whatever delays the network has. A failed renewal leaves the limit
// unchanged, because the holder does not know whether the server granted it, and is retried after a tenth of Every.
//
// A renewal may ignore its ctx and hang for as long as the client's own settings say. It does not delay the loss,
// because the limit has a timer of its own; only the return of keep waits for the renewal. A paused process does
// not run this timer either: it notices the loss when it wakes, and only a fence stops its write.
func (l *Lease) keep(renewing context.Context, sent time.Time, r Renewal) {
	t := r.begin(sent)
	for {
		renew := r.Every > 0 && renewing.Err() == nil
		timer := time.NewTimer(time.Until(r.wake(t, renew)))
		select {
		case <-l.held.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		now := time.Now()
		if err := r.over(t, now); err != nil {
			l.lose(err)
			return
		}
		if renewing.Err() != nil {
			continue
		}
		switch err := l.renew(renewing, r, t); {
		case err == nil:
			t = r.renewed(t, now)
			l.mu.Lock()
			l.until = r.end(t)
			l.mu.Unlock()
		case l.held.Err() != nil:
			return
		case errors.Is(err, ErrExpired), errors.Is(err, ErrTaken):
			l.lose(err)
			return
		default:
			t.next = time.Now().Add(r.Every / 10)
		}
	}
}

// A term is the holder's view of the time left of its lease.
type term struct {
	sent  time.Time // a time before the request that acquired the lease was sent
	until time.Time // until then the holder may rely on the lease
	next  time.Time // when the next renewal is due
}

// begin returns the term of a lease that was granted to a request sent at sent.
func (r Renewal) begin(sent time.Time) term {
	if r.First > 0 {
		return term{sent, sent.Add(Valid(r.First)), sent.Add(r.First / 3)}
	}
	return term{sent, sent.Add(Valid(r.TTL)), sent.Add(r.Every)}
}

// renewed returns the term after a granted renewal. asked is a time before its request was sent.
func (r Renewal) renewed(t term, asked time.Time) term {
	t.until = asked.Add(Valid(r.TTL))
	t.next = asked.Add(r.Every)
	return t
}

// over returns nil while the term lasts, and then the reason why it ended, which matches ErrExpired.
func (r Renewal) over(t term, now time.Time) error {
	switch {
	case !now.Before(t.until):
		return &ExpiredError{After: now.Sub(t.sent).Round(time.Millisecond)}
	case r.Max > 0 && now.Sub(t.sent) >= r.Max:
		return &ExpiredError{After: r.Max, Maximum: true}
	}
	return nil
}

// due returns the time when a lease, requested at sent, first needs its keeper.
func (r Renewal) due(sent time.Time) time.Time { return r.wake(r.begin(sent), r.Every > 0) }

// end returns the time when the term ends if it is not renewed.
func (r Renewal) end(t term) time.Time { return r.wake(t, false) }

// wake returns the first time at which a renewal is due or the term ends.
func (r Renewal) wake(t term, renew bool) time.Time {
	wake := t.until
	if renew && t.next.Before(wake) {
		wake = t.next
	}
	if limit := t.sent.Add(r.Max); r.Max > 0 && limit.Before(wake) {
		wake = limit
	}
	return wake
}

// renew tries to renew once. Its ctx ends with the term or after one renewal period, so that a hung connection leaves
// time to retry. If the term ends meanwhile, the lease is lost without waiting for the renewal.
func (l *Lease) renew(ctx context.Context, r Renewal, t term) error {
	end := r.end(t)
	over := time.AfterFunc(time.Until(end), func() { l.lose(r.over(t, time.Now())) })
	defer over.Stop()
	limit := time.Now().Add(r.Every)
	if end.Before(limit) {
		limit = end
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	return r.Renew(ctx)
}

package lock

import (
	"context"
	"errors"
	"time"
)

// A Keep says how a lease with a time limit is renewed. A lease without renewal and a watchdog differ only in Every.
type Keep struct {
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

// KeepAlive renews the lease until renewing ends. It blocks until held ends. If the lease is lost, it calls lost with
// the reason; lost must end held. Only the first call of lost counts.
//
// The holder's time limit uses the monotonic clock and counts from a time before the granted request was sent. So the
// holder's limit passes before the server's limit, whatever delays the network has. A failed renewal leaves the limit
// unchanged, because the holder does not know whether the server granted it, and is retried after a tenth of Every.
//
// A renewal may ignore its ctx and hang for as long as the client's own settings say. It does not delay the loss,
// because the limit has a timer of its own; only the return of KeepAlive waits for the renewal. A paused process does
// not run this timer either: it notices the loss when it wakes, and only a fence stops its write.
func KeepAlive(held, renewing context.Context, sent time.Time, k Keep, lost func(error)) {
	t := k.Begin(sent)
	for {
		renew := k.Every > 0 && renewing.Err() == nil
		timer := time.NewTimer(time.Until(k.wake(t, renew)))
		select {
		case <-held.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		now := time.Now()
		if err := k.Over(t, now); err != nil {
			lost(err)
			return
		}
		if renewing.Err() != nil {
			continue
		}
		switch err := k.renew(renewing, t, lost); {
		case err == nil:
			t = k.Renewed(t, now)
		case held.Err() != nil:
			return
		case errors.Is(err, ErrExpired), errors.Is(err, ErrTaken):
			lost(err)
			return
		default:
			t.Next = time.Now().Add(k.Every / 10)
		}
	}
}

// A Term is the holder's view of the time left of its lease. It holds values and no clock, so that both KeepAlive and
// the model of a lock can use it.
type Term struct {
	Sent  time.Time // a time before the request that acquired the lease was sent
	Until time.Time // until then the holder may rely on the lease
	Next  time.Time // when the next renewal is due
}

// Begin returns the term of a lease that was granted to a request sent at sent.
func (k Keep) Begin(sent time.Time) Term {
	if k.First > 0 {
		return Term{sent, sent.Add(Valid(k.First)), sent.Add(k.First / 3)}
	}
	return Term{sent, sent.Add(Valid(k.TTL)), sent.Add(k.Every)}
}

// Renewed returns the term after a granted renewal. asked is a time before its request was sent.
func (k Keep) Renewed(t Term, asked time.Time) Term {
	t.Until = asked.Add(Valid(k.TTL))
	t.Next = asked.Add(k.Every)
	return t
}

// Over returns nil while the term lasts, and then the reason why it ended, which matches ErrExpired.
func (k Keep) Over(t Term, now time.Time) error {
	switch {
	case !now.Before(t.Until):
		return &ExpiredError{After: now.Sub(t.Sent).Round(time.Millisecond)}
	case k.Max > 0 && now.Sub(t.Sent) >= k.Max:
		return &ExpiredError{After: k.Max, Maximum: true}
	}
	return nil
}

// due returns the time when a lease, requested at sent, first needs its keeper.
func (k Keep) due(sent time.Time) time.Time { return k.wake(k.Begin(sent), k.Every > 0) }

// wake returns the first time at which a renewal is due or the term ends.
func (k Keep) wake(t Term, renew bool) time.Time {
	wake := t.Until
	if renew && t.Next.Before(wake) {
		wake = t.Next
	}
	if limit := t.Sent.Add(k.Max); k.Max > 0 && limit.Before(wake) {
		wake = limit
	}
	return wake
}

// renew tries to renew once. Its ctx ends with the term or after one renewal period, so that a hung connection leaves
// time to retry. If the term ends meanwhile, renew calls lost without waiting for the renewal.
func (k Keep) renew(ctx context.Context, t Term, lost func(error)) error {
	end := k.wake(t, false)
	over := time.AfterFunc(time.Until(end), func() { lost(k.Over(t, time.Now())) })
	defer over.Stop()
	limit := time.Now().Add(k.Every)
	if end.Before(limit) {
		limit = end
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	return k.Renew(ctx)
}

package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Keep says how a lease with a time limit stays alive. A plain lease and a watchdog differ by one field: Every.
type Keep struct {
	TTL   time.Duration // the server frees the key this long after the last request that it granted
	Every time.Duration // time between renewals; 0: never renewed. A third of TTL leaves two retries.
	// if not 0, the TTL up to the first renewal, which is then due after a third of it
	First time.Duration
	Max   time.Duration // longest hold, however well renewals go; 0: no limit
	// asks for another TTL; an ErrExpired or ErrTaken is final, other errors are retried
	Renew func(ctx context.Context) error
}

// Valid is how long a holder may believe a granted TTL: less 1 % and 2 ms for clocks that run at different rates
// and for the way that expiry is rounded, as in Redlock
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
func Valid(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// KeepAlive blocks until held ends (nil) or the lease is lost (the reason). It renews while renewing lives.
//
// The local time limit is monotonic and counted from before the granted request left, so that it passes before the
// server's, whatever the network does. A renewal that fails leaves the limit where it was and is retried ten times
// as often; the server may have granted it, but a holder does not count on what it was not told. What is not
// promised: a process that is paused does not run this function either. It learns of the loss when it wakes; only a
// fence stops its write.
func KeepAlive(held, renewing context.Context, sent time.Time, k Keep) error {
	t := k.Begin(sent)
	for {
		renew := k.Every > 0 && renewing.Err() == nil
		timer := time.NewTimer(time.Until(k.wake(t, renew)))
		select {
		case <-held.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		now := time.Now()
		if err := k.Over(t, now); err != nil {
			return err
		}
		if renewing.Err() != nil {
			continue
		}
		switch err := k.renew(renewing, t.Until); {
		case err == nil:
			t = k.Renewed(t, now)
		case held.Err() != nil:
			return nil
		case errors.Is(err, ErrExpired), errors.Is(err, ErrTaken):
			return err
		default:
			t.Next = time.Now().Add(k.Every / 10)
		}
	}
}

// A Term is what a holder knows of the time that its lease has left. Only values are in it and no clock: KeepAlive is
// the loop around it, and a model of a lock can put the same rules to every order of events.
type Term struct {
	Sent  time.Time // before the request that acquired the lease left
	Until time.Time // until then the holder may believe in the lease
	Next  time.Time // when the next renewal is due
}

// Begin returns the term of a lease that was granted to a request sent then.
func (k Keep) Begin(sent time.Time) Term {
	if k.First > 0 {
		return Term{sent, sent.Add(Valid(k.First)), sent.Add(k.First / 3)}
	}
	return Term{sent, sent.Add(Valid(k.TTL)), sent.Add(k.Every)}
}

// Renewed returns the term after a renewal that was granted. asked is a time before its request left.
func (k Keep) Renewed(t Term, asked time.Time) Term {
	t.Until = asked.Add(Valid(k.TTL))
	t.Next = asked.Add(k.Every)
	return t
}

// Over returns the reason why nothing is left of the term, which matches ErrExpired; nil: something is.
func (k Keep) Over(t Term, now time.Time) error {
	switch {
	case !now.Before(t.Until):
		return fmt.Errorf("%w after %v", ErrExpired, now.Sub(t.Sent).Round(time.Millisecond))
	case k.Max > 0 && now.Sub(t.Sent) >= k.Max:
		return fmt.Errorf("%w: held for the maximum of %v", ErrExpired, k.Max)
	}
	return nil
}

// due is when a lease that was granted by a request sent then needs its keeper for the first time.
func (k Keep) due(sent time.Time) time.Time { return k.wake(k.Begin(sent), k.Every > 0) }

// wake is the first time at which there is something to do.
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

// renew asks once, for no longer than the lease runs and a renewal period lasts: a hung connection must leave time
// to retry.
func (k Keep) renew(ctx context.Context, until time.Time) error {
	limit := time.Now().Add(k.Every)
	if until.Before(limit) {
		limit = until
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	return k.Renew(ctx)
}

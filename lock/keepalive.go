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
// (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/).
func Valid(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// KeepAlive blocks until held ends (nil) or the lease is lost (the reason). It renews while renewing lives.
//
// The local time limit is monotonic and counted from before the granted request left, so that it passes before the
// server's, whatever the network does. A renewal that fails leaves the limit where it was and is retried ten times
// as often; the server may have granted it, but a holder does not count on what it was not told. What is not
// promised: a process that is paused does not run this function either. It learns of the loss when it wakes; only a
// fence stops its write.
func KeepAlive(held, renewing context.Context, sent time.Time, k Keep) error {
	until, next := k.begin(sent)
	for {
		renew := k.Every > 0 && renewing.Err() == nil
		timer := time.NewTimer(time.Until(k.wake(sent, until, next, renew)))
		select {
		case <-held.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		now := time.Now()
		switch {
		case !now.Before(until):
			return fmt.Errorf("%w after %v", ErrExpired, now.Sub(sent).Round(time.Millisecond))
		case k.Max > 0 && now.Sub(sent) >= k.Max:
			return fmt.Errorf("%w: held for the maximum of %v", ErrExpired, k.Max)
		case renewing.Err() != nil:
			continue
		}
		switch err := k.renew(renewing, until); {
		case err == nil:
			until = now.Add(Valid(k.TTL))
			next = now.Add(k.Every)
		case held.Err() != nil:
			return nil
		case errors.Is(err, ErrExpired), errors.Is(err, ErrTaken):
			return err
		default:
			next = time.Now().Add(k.Every / 10)
		}
	}
}

// due is when a lease that was granted by a request sent then needs its keeper for the first time.
func (k Keep) due(sent time.Time) time.Time {
	until, next := k.begin(sent)
	return k.wake(sent, until, next, k.Every > 0)
}

// begin is how long the first grant is valid, and when it is to be renewed.
func (k Keep) begin(sent time.Time) (until, next time.Time) {
	if k.First > 0 {
		return sent.Add(Valid(k.First)), sent.Add(k.First / 3)
	}
	return sent.Add(Valid(k.TTL)), sent.Add(k.Every)
}

// wake is the first time at which there is something to do.
func (k Keep) wake(sent, until, next time.Time, renew bool) time.Time {
	wake := until
	if renew && next.Before(wake) {
		wake = next
	}
	if limit := sent.Add(k.Max); k.Max > 0 && limit.Before(wake) {
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

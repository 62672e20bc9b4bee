package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Keep says how a lease with a time limit stays alive. A plain lease and a watchdog differ by one field: Every.
type Keep struct {
	TTL   time.Duration                   // the server frees the key this long after the last request that it granted
	Every time.Duration                   // time between renewals; 0: never renewed. A third of TTL leaves two retries.
	First time.Duration                   // if not 0, the TTL up to the first renewal, which is then due after a third of it
	Max   time.Duration                   // longest hold, however well renewals go; 0: no limit
	Renew func(ctx context.Context) error // asks for another TTL; an ErrExpired or ErrTaken is final, other errors are retried
}

// Valid is how long a holder may believe a granted TTL: less 1 % and 2 ms for clocks that run at different rates and for the
// way that expiry is rounded, as in Redlock (https://redis.io/docs/latest/develop/use/patterns/distributed-locks/).
func Valid(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// KeepAlive blocks until held ends (nil) or the lease is lost (the reason). It renews while renewing lives.
//
// The local time limit is monotonic and counted from before the granted request left, so that it passes before the server's,
// whatever the network does. A renewal that fails leaves the limit where it was and is retried ten times as often; the
// server may have granted it, but a holder does not count on what it was not told. What is not promised: a
// process that is paused does not run this function either. It learns of the loss when it wakes; only a fence stops its write.
func KeepAlive(held, renewing context.Context, sent time.Time, k Keep) error {
	until := sent.Add(Valid(k.TTL))
	next := sent.Add(k.Every)
	if k.First > 0 {
		until, next = sent.Add(Valid(k.First)), sent.Add(k.First/3)
	}
	for {
		wake := until
		if k.Every > 0 && renewing.Err() == nil && next.Before(until) {
			wake = next
		}
		if k.Max > 0 && sent.Add(k.Max).Before(wake) {
			wake = sent.Add(k.Max)
		}
		timer := time.NewTimer(time.Until(wake))
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
		switch err := renew(renewing, until, k); {
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

// renew asks once, for no longer than the lease runs and a renewal period lasts: a hung connection must leave time to retry.
func renew(ctx context.Context, until time.Time, k Keep) error {
	limit := time.Now().Add(k.Every)
	if until.Before(limit) {
		limit = until
	}
	ctx, cancel := context.WithDeadline(ctx, limit)
	defer cancel()
	return k.Renew(ctx)
}

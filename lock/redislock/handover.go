package redislock

import (
	"context"

	"example.com/stock/lock"
)

// What lock.HandOver makes use of.
var (
	_ lock.FenceRanger = (*Watchdog)(nil)
	_ lock.Starter     = (*Watchdog)(nil)
)

// FenceRange is the distance between fences: queue.lua has the number.
func (w *Watchdog) FenceRange() uint64 { return 64 }

// Start makes the first request of Acquire, one round trip; see [lock.Starter].
func (w *Watchdog) Start(ctx context.Context, key string, o lock.Options) (
	*lock.Lease, func(context.Context) (*lock.Lease, error), error,
) {
	c, l, err := w.begin(ctx, key, o)
	if c == nil {
		return l, nil, err
	}
	return nil, c.wait, nil
}

package redislock

import "example.com/stock/lock"

// The interfaces that lock.HandOver uses.
var (
	_ lock.FenceRanger = (*Watchdog)(nil)
	_ lock.Starter     = (*Watchdog)(nil)
)

// FenceRange returns the distance between fences.
func (w *Watchdog) FenceRange() uint64 { return span }

package redislock

import "example.com/stock/lock"

// What lock.HandOver makes use of.
var (
	_ lock.FenceRanger = (*Watchdog)(nil)
	_ lock.Starter     = (*Watchdog)(nil)
)

// FenceRange is the distance between fences: queue.lua has the number.
func (w *Watchdog) FenceRange() uint64 { return 64 }

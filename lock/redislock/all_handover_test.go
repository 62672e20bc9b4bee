package redislock_test

import (
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

func TestAllOfWatchdogHandedOver(t *testing.T) {
	t.Parallel()
	s := servers.Redis(t)
	open := func() lock.Locker {
		return lock.HandOver(watchdog(t, s, redislock.WatchdogOptions{}), lock.Bound{})
	}
	locktest.Carts(t, true, [2]lock.Locker{open(), open()})
}

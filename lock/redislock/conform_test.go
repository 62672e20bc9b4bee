package redislock_test

import (
	"testing"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

// conform puts a lock to the suite. open makes an independent one on the same servers.
func conform(t *testing.T, promise lock.Promise, open func(testing.TB) lock.Locker) {
	t.Helper()
	locktest.Run(t, promise, open)
}

// What they promise that can be put to the suite; re-entry is by context, and the same for all.
func setnxPromise() lock.Promise {
	return lock.Promise{Exclusive: true, Scope: lock.Cluster, Fenced: true, Blocking: true}
}

func watchdogPromise() lock.Promise {
	return lock.Promise{Exclusive: true, Scope: lock.Cluster, Fenced: true, Blocking: true, Fair: true}
}

func byHandPromise() lock.Promise {
	return lock.Promise{Exclusive: true, Scope: lock.Cluster, Blocking: true}
}

func TestSetNXConforms(t *testing.T) {
	s := servers.Redis(t)
	conform(t, setnxPromise(), func(t testing.TB) lock.Locker { return setnx(t, s, 0) })
}

func TestWatchdogConforms(t *testing.T) {
	s := servers.Redis(t)
	conform(t, watchdogPromise(), func(t testing.TB) lock.Locker { return watchdog(t, s, redislock.WatchdogOptions{}) })
}

// Handed over inside each process it keeps the same promises, but is first come, first served only within a process.
func TestWatchdogHandedOverConforms(t *testing.T) {
	s := servers.Redis(t)
	conform(t, setnxPromise(), func(t testing.TB) lock.Locker {
		return lock.HandOver(watchdog(t, s, redislock.WatchdogOptions{}), lock.Bound{})
	})
}

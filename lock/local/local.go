// Package local has locks that work inside one process: correct with one instance of the service, wrong with two.
package local

import (
	"context"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// Mutex is a mutex per key in this process, first come, first served, like Java's "synchronized".
//
// Round trips: 0. It excludes goroutines of the same process. It excludes nothing on another instance, and behind a
// load balancer there is always another instance. It is dangerous because it passes every test that runs one process.
// It issues no fence, because counters of two processes cannot be compared.
//
// A key has no time limit. If the outcome of its holder's work is unknown, the key stays taken for ten seconds.
type Mutex struct{ queue lock.Queue }

// linger is how long an abandoned key stays taken, see [lock.Lease.Abandon].
const linger = 10 * time.Second

// Promise is what it promises.
func (*Mutex) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Process, Blocking: true, Reentrant: true, SignalsLoss: true,
	}
}

// Acquire waits for key until ctx ends.
func (m *Mutex) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := driver.MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	if err := m.queue.Enter(ctx, key, o); err != nil {
		return nil, err
	}
	lease, _ := lock.NewLease(key, lock.NoFence, func(context.Context) error {
		m.queue.Leave(key)
		return nil
	})
	lease.Linger(linger)
	return lease, nil
}

// InspectAll returns the holder of each key and the waiters in this process. There is no Evict, because without a fence
// nothing stops the writes of an evicted holder.
func (m *Mutex) InspectAll(_ context.Context, keys []string) ([]lock.State, error) {
	states := make([]lock.State, len(keys))
	for i, key := range keys {
		states[i] = m.queue.State(key)
	}
	return states, nil
}

// None excludes nobody: every Acquire succeeds at once. It is the control run that shows the race.
//
// Round trips: 0. Promises: nothing.
type None struct{}

// Promise is what it promises.
func (None) Promise() driver.Promise {
	return driver.Promise{Scope: driver.Nowhere}
}

// Acquire never fails and never waits.
func (None) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	lease, _ := lock.NewLease(key, lock.NoFence, func(context.Context) error { return nil })
	return lease, nil
}

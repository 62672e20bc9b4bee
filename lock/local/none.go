// Package local holds the locks that know one process only: right on one instance, wrong on two.
package local

import (
	"context"

	"example.com/stock/lock"
)

// None excludes nobody: every Acquire succeeds at once. It is the control run that shows the race.
//
// Round trips: 0. Promises: nothing.
type None struct{}

// Acquire never fails and never waits.
func (None) Acquire(_ context.Context, key string, _ lock.Options) (*lock.Lease, error) {
	lease, _ := lock.NewLease(key, lock.NoFence, func(context.Context) error { return nil })
	return lease, nil
}

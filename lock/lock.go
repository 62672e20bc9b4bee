// Package lock is the contract of all locks: acquire a lease, notice its loss, release it. [Do] is all that most
// callers need. README.md says which lock to take.
//
// A lock over a network is a lease: the server may give the key to another caller while the holder still runs, because
// the holder was paused, cut off, or slow. No lock here promises that only one process *runs* at a time. Each promises
// (1) that the holder's lease reports the loss as early as the holder's own clock allows, and (2) if the strategy is
// fenced, that the store refuses a write with an old [Fence]. The second promise keeps the data correct. The first
// only saves work.
//
// If the outcome of the holder's work is not known, because a write was sent and not answered, the key is not freed.
// It stays taken until the lease has run out, unless the work marks its write as [Conditional]. See [Do].
//
// The package uses only the standard library. The drivers are in packages below it, one for each server.
package lock

import "context"

// A Fence is a fencing token: of two holders of the same key, the later one has the larger fence. The store refuses a
// write whose fence is smaller than the largest one it has seen. Fences of different strategies are not comparable.
//
// See "Making the lock safe with fencing": https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
type Fence uint64

// NoFence is the fence of a lock that cannot issue one. The store does not check it.
const NoFence Fence = 0

// A Locker grants leases. It grants at most one per key at a time, within the limits that its driver
// documents. It is safe for concurrent use.
type Locker interface {
	// Acquire waits for key until ctx ends, or tries once if o.TryOnce is set. It ignores o.WaitFor and
	// o.Wait, which are for [Do].
	//
	// The error matches ErrHeld if the wait ended while another holder had the key (and also the cause of ctx, if ctx
	// ended the wait), ErrDown if the server did not answer, ErrNoCapacity if the lock needs a connection for each key
	// and none was free, ErrClosed if the lock was closed, and ErrInvalid if the key is empty or longer than 1024
	// bytes. If ctx ended before the server answered, the error is the cause of ctx and no ErrDown, because the server
	// may be up. After an error Acquire leaves nothing behind: no key, no node, no place in the queue. If the outcome
	// of a request is unknown, Acquire tries to free the key before it returns.
	Acquire(ctx context.Context, key string, o Options) (*Lease, error)
}

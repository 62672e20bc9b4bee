// Package lock is the contract that every lock of this service keeps: acquire a lease, learn of its loss, give it
// back.
//
// A lock over a network is a lease: the server may hand the key to somebody else while the holder still runs, because
// the holder was paused, cut off, or slow. No lock here promises that only one process *runs* at a time. What is
// promised is (1) that the holder is told through its lease as early as its own clock allows, and (2) where the
// strategy is fenced, that a write carrying an old [Fence] is refused by the store. The second is what keeps stock
// right; the first saves work.
//
// When the outcome of the holder's work is not known, because a write was sent and not answered, the key is not
// freed: it stays taken until the lease has run out by itself, unless the work says that its write is [Conditional].
// See [Do].
//
// The package uses the standard library only. Drivers live below it, one package per server.
package lock

import "context"

// A Fence is a fencing token: of two holders of the same key the later one has the larger fence. The store refuses
// a write whose fence is smaller than one it has seen. Fences of different strategies are not comparable.
//
// See https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html, "Making the lock safe with fencing".
type Fence uint64

// NoFence is the fence of a lock that cannot issue one. The store does not check it.
const NoFence Fence = 0

// A Locker hands out leases, at most one per key at a time as far as its [Promise] goes. It is safe for concurrent use.
type Locker interface {
	// Acquire waits for key until ctx ends, or tries once if o says so. It does not look at o.Wait.
	//
	// Errors match ErrHeld when the wait ended while another held the key (together with the ctx's cause, if that
	// ended the wait), ErrDown when the server could not be asked, ErrNoCapacity when this process keeps a
	// connection for each key and had none left. On failure Acquire leaves nothing behind: no key, no node, no
	// place in the queue, and where the outcome of a request is unknown it frees before it returns.
	Acquire(ctx context.Context, key string, o Options) (*Lease, error)
}

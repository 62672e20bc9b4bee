// Package teaching has locks on Redis as they are often written, each with a flaw that is its lesson. Do not use them:
// package redislock has a lock without the flaw for each purpose. They keep the rest of the contract of package lock,
// so that only the flaw makes the difference.
//
//   - [SetNXExpire] sets the key and its time limit in two commands: a crash between them blocks the key for ever.
//   - [SetNXDel] has the same value for all callers: a slow holder deletes the key of the next one.
//   - [SetNXWatch] compares and deletes without Lua. That is right, but slow, and the lock has no fence.
//   - [RLock] is Redisson's lock: it has no fence and no order, and a holder that hangs keeps it for ever.
package teaching

import (
	"cmp"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/driver"
	"example.com/stock/lock/redislock/internal/request"
)

// SetNXOptions are the options of a SetNXDel or a SetNXWatch. A zero field means its default.
type SetNXOptions struct {
	Lease time.Duration // the server frees the key after this; default 10 s
}

// SetNXExpireOptions are the options of a SetNXExpire. A zero field means its default.
type SetNXExpireOptions struct {
	Lease  time.Duration // the server frees the key after this; default 10 s
	Repair bool          // set an expiry on a key that was left without one; default: such a key blocks for ever
}

// handle has InspectAll, Keys and Close. There is no Evict: without a fence, an evicted holder could still
// write.
type handle = request.Handle

// newServer returns the server of a lock whose only key has the holder's value.
func newServer(c redis.UniversalClient, prefix string, lease time.Duration) *request.Server {
	lease = cmp.Or(lease, 10*time.Second)
	return &request.Server{
		Client: c, Prefix: prefix, Parts: []string{""}, Reader: request.HolderReader, Lease: lease,
		Cleanup: request.NewCleanup(driver.AtLeast("Lease", lease, driver.MinLease)),
	}
}

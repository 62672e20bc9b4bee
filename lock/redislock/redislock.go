// Package redislock locks keys with Redis: a key with a time limit, whose value identifies the acquisition that wrote
// it.
//
// Read setnx.go first: it is the plain algorithm of [SetNX] from acquire to release, and names what each other file
// adds. watchdog.go does the same for [Watchdog], which queues its waiters and renews its lease, and redlock.go for
// [Redlock]. What they share is in internal/request. Package teaching has typical flawed locks.
package redislock

import (
	"context"
	_ "embed" // the scripts
	"fmt"
	"strconv"
	"time"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/redislock/internal/request"
)

// Replicas says how many replicas of the server must acknowledge a grant or a renewal (WAIT) before it counts. If too
// few do so in time, an acquisition gives the lock back and returns ErrDown, and a renewal is retried until the lease
// runs out. Without them, there may be a second holder after a fail-over to a replica that did not have the lock yet.
//
// WAIT (https://redis.io/docs/latest/commands/wait/) is not consensus. It makes it likelier that a lock survives the
// end of its master, because each replica that has acknowledged has the key. It does not promise
//   - that one of those replicas is promoted. Require all replicas, or so many that the other replicas are fewer than
//     half of those that may be promoted. But the more there are, the likelier the failure of one blocks all callers;
//   - that the acknowledged key is on a disk;
//   - that clients stop using a master that was cut off. Such a master can grant nothing more, but its earlier grants
//     continue.
//
// An acquisition that failed because too few replicas acknowledged may have reached some replica. If this replica is
// promoted before it receives the release, no caller gets the lock until the lease runs out. Only the fence stops the
// writes of an older holder.
type Replicas struct {
	Number int // default 0: none must acknowledge
	// Timeout must be shorter than the client's ReadTimeout; default 500 ms, or a sixth of the lease if that is less.
	Timeout time.Duration
}

// handle has InspectAll, Keys and Close.
type handle = request.Handle

var (
	//go:embed fence.lua
	fenceSource string
	//go:embed queue.lua
	queueSource string
	//go:embed inspect.lua
	inspectSource string
	//go:embed evict.lua
	evictSource string
)

var inspectScript, evictScript = queued(inspectSource), queued(evictSource)

// queued returns the script that needs fence.lua and queue.lua.
func queued(source string) *redisscript.Script {
	return redisscript.New(fenceSource + queueSource + source)
}

// An inspectable lock names its holders and lists its keys.
type inspectable interface {
	driver.Inspector
	driver.Lister
}

var (
	_ inspectable    = handle{}
	_ inspectable    = (*Redlock)(nil) // without a fence it has no Evict: an evicted holder could still write
	_ driver.Evictor = (*SetNX)(nil)
	_ driver.Evictor = (*Watchdog)(nil)
)

// Evict deletes the key, in one round trip. The holder does not renew its lease, so it notices the eviction only when
// the lease would have run out, or when the store refuses its write.
func (s *SetNX) Evict(ctx context.Context, key string) (lock.Fence, error) {
	return evict(ctx, s.server, key)
}

// Evict takes the lock away and grants it to the oldest waiter, in one round trip. The holder's lease ends at its
// next renewal, at most a third of Lease later.
func (w *Watchdog) Evict(ctx context.Context, key string) (lock.Fence, error) {
	return evict(ctx, w.server, key)
}

func evict(ctx context.Context, s *request.Server, key string) (lock.Fence, error) {
	names := s.Names(key)
	eviction := request.Call{Script: evictScript, Keys: names, Args: []any{grantLease.Milliseconds()}}
	reply, err := eviction.Run(ctx, s.Client).Text()
	if err != nil {
		return lock.NoFence, request.Failure("evict the holder of", names[0], err)
	}
	fence, err := strconv.ParseUint(reply, 10, 64)
	if err != nil {
		return lock.NoFence, fmt.Errorf("evict the holder of %s: fence %q: %w", names[0], reply, err)
	}
	return lock.Fence(fence), nil
}

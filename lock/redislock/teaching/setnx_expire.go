package teaching

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/redislock/internal/request"
)

// repairAfter is how long a key must have been without expiry, with the same holder, to be repaired.
const repairAfter = time.Second

// SetNXExpire sends SETNX, and then PEXPIRE as a second command. Locks were written like this before Redis 2.6.12 gave
// SET its options (the warning is at https://redis.io/docs/latest/commands/setnx/), and some still are. The release is
// correct: it compares and deletes, so this lock has only the following fault.
//
// The failure that it teaches: a holder that crashes between the two commands leaves a key without an expiry (PTTL -1),
// and all other callers wait for ever. With Repair, a contender that finds the same holder's key without expiry twice,
// at least a second apart, sets one. It does not set one at once, because the key of a running holder has no expiry
// for a moment, too. A holder that is paused between the commands for longer than that is still safe: the repaired key
// lives for a whole Lease from the repair, and the holder, which counts from before its SETNX, notices after its
// PEXPIRE that its lease is over. (That PEXPIRE may hit the next holder's key, which then only lives longer.)
// All users of a key must have the same Lease.
//
// Round trips: 3 uncontended (acquire 2, release 1); contended 1 for every try, and 1 for a repair. It waits as
// redislock.SetNX does.
//
// Promises: exclusion while no lease runs out; a lease that ends by the holder's own clock. It does not promise that
// the key becomes free after a crash between the two commands, unless Repair is set (then within Lease + 1 s, if
// another caller tries meanwhile); nor a fence, so a holder that was paused past its lease still writes; nor
// renewal, fairness, or survival of a fail-over.
type SetNXExpire struct {
	handle
	server *request.Server
	repair bool

	mu       sync.Mutex
	suspects map[string]suspect // by key; removed when the key has an expiry or another holder
}

// A suspect is a holder that may have crashed between its two commands.
type suspect struct {
	value string
	since time.Time
}

// NewSetNXExpire returns a SetNXExpire on c. Close it when all leases have ended. If an option is invalid, Acquire
// returns an error that names it.
func NewSetNXExpire(c redis.UniversalClient, o SetNXExpireOptions) *SetNXExpire {
	s := newServer(c, "setnx-expire", o.Lease)
	return &SetNXExpire{
		handle: s.Handle(), server: s, repair: o.Repair, suspects: make(map[string]suspect),
	}
}

// Promise is what it promises with the defaults of its options.
func (*SetNXExpire) Promise() driver.Promise {
	// FreedAfterCrash: usually 10 s, but Forever after a crash between SETNX and EXPIRE. With Repair it is
	// then 11 s, if another caller tries to acquire the lock meanwhile.
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Reentrant: true, SignalsLoss: true, FreedAfterCrash: driver.Forever,
	}
}

// Acquire tries until ctx ends, or once with TryOnce.
func (s *SetNXExpire) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return s.server.Poll(ctx, key, o, func(ctx context.Context) (*lock.Lease, error) { return s.try(ctx, key, o) })
}

func (s *SetNXExpire) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	// Every try has a new value, so that a late release of this one cannot delete the key of the next.
	name, value, cleanup := s.server.Names(key)[0], request.NewValue(o), s.server.Cleanup
	deletion := request.Call{Script: request.ReleaseScript, Keys: []string{name}, Args: []any{value}}
	release := func(ctx context.Context) error {
		return request.Ownership(deletion.Run(ctx, s.server.Client).Int())
	}
	sent := time.Now()
	var underWay atomic.Int32
	taken, found, err := request.SetNX(ctx, &underWay, s.server.Client, name, value, 0)
	switch {
	case err != nil:
		return nil, cleanup.Failed(ctx, &underWay, name, err, release)
	case !taken:
		return nil, s.heldBy(ctx, key, found)
	}
	limited, err := s.limit(ctx, &underWay, name)
	switch {
	case err != nil:
		cleanup.Undo(ctx, &underWay, release)
		return nil, request.AcquireError(ctx, name, err)
	case !limited || request.LeaseOver(sent, s.server.Lease):
		// The key was deleted, or this process was paused so long that another caller may have the key after a
		// repair.
		cleanup.Undo(ctx, &underWay, release)
		return nil, &lock.HeldError{Key: key}
	}
	return request.Hold(key, lock.NoFence, sent, s.server.Lease, func(ctx context.Context) error {
		return cleanup.Free(ctx, s.server.Lease, release)
	}), nil
}

// limit sets the expiry of a key, and reports whether the key exists. See request.Ask for underWay.
func (s *SetNXExpire) limit(ctx context.Context, underWay *atomic.Int32, name string) (bool, error) {
	reply, err := request.Ask(ctx, s.server.Client, underWay, func() *redis.BoolCmd {
		return s.server.Client.PExpire(ctx, name, s.server.Lease)
	})
	if err != nil {
		return false, err
	}
	return reply.Result()
}

// heldBy returns a HeldError for key. It repairs the key first if Repair is set and the key is stuck.
func (s *SetNXExpire) heldBy(ctx context.Context, key string, found request.Found) error {
	held := found.Held(key)
	if !s.repair || !s.isStuck(key, found) {
		return held
	}
	// This command is not atomic with the earlier reads. If the key has another holder by now, the key lives longer, by
	// one Lease at most.
	if _, err := s.limit(ctx, nil, s.server.Names(key)[0]); err != nil {
		return request.AcquireError(ctx, s.server.Names(key)[0], err)
	}
	held.Remaining = s.server.Lease
	return held
}

// isStuck reports whether key has been without expiry, with the same holder, for repairAfter.
func (s *SetNXExpire) isStuck(key string, found request.Found) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found.Value == "" || found.TTL >= 0 {
		delete(s.suspects, key)
		return false
	}
	if seen, ok := s.suspects[key]; ok && seen.value == found.Value {
		return time.Since(seen.since) >= repairAfter
	}
	s.suspects[key] = suspect{found.Value, time.Now()}
	return false
}

package teaching

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/redislock/internal/request"
)

// SetNXDel is SET NX PX with the same value for all callers, released by a plain DEL: the lock of most tutorials.
//
// The failure that it teaches: A works for longer than its lease, the key expires, and B takes it. When A has finished,
// it deletes B's key. Now C gets the lock while B holds it, B deletes C's key, and so on: one slow holder breaks the
// lock for all later holders. The remedy is a separate value for each acquisition, compared and deleted in one step
// (redislock.SetNX, [SetNXWatch]).
//
// Without such a value a caller cannot clean up either. If the reply to the SET is lost, the caller does not know
// whether the key is its own, and leaves it. The key then stays for a Lease at most. To lose fewer replies, the caller
// waits for a reply for up to a second even if ctx ends. For the same reason a DEL that fails is not repeated later.
//
// Round trips: 2 uncontended (acquire 1, release 1); contended 1 for every try. It waits as redislock.SetNX does.
//
// Promises: exclusion until the first lease expires during work. It does not promise that a holder notices when
// another caller deletes its key; nor a fence, so nothing stops the write; nor renewal, fairness, or survival of a
// fail-over.
type SetNXDel struct {
	handle
	server *request.Server
}

// NewSetNXDel returns a SetNXDel on c. Close it when all leases have ended. If an option is invalid, Acquire returns an
// error that names it.
func NewSetNXDel(c redis.UniversalClient, o SetNXOptions) *SetNXDel {
	s := newServer(c, "setnx-del", o.Lease)
	return &SetNXDel{s.Handle(), s}
}

// Promise is what it promises with the defaults of its options.
func (*SetNXDel) Promise() driver.Promise {
	// SignalsLoss is not promised, because nothing reports to a holder that another caller has deleted its key.
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Reentrant: true, FreedAfterCrash: 10 * time.Second,
	}
}

// Acquire tries until ctx ends, or once with TryOnce.
func (s *SetNXDel) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return s.server.Poll(ctx, key, o, func(ctx context.Context) (*lock.Lease, error) { return s.try(ctx, key, o) })
}

func (s *SetNXDel) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	name, length := s.server.Names(key)[0], s.server.Lease
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	sent := time.Now()
	taken, found, err := request.SetNX(asking, nil, s.server.Client, name, "locked "+o.Owner, length)
	switch {
	case err != nil:
		return nil, request.AcquireError(ctx, name, err)
	case !taken:
		return nil, found.Held(key)
	case request.LeaseOver(sent, length): // the key has expired, and another caller may have it
		return nil, &lock.HeldError{Key: key}
	}
	lease := request.Hold(key, lock.NoFence, sent, length, func(ctx context.Context) error {
		return s.free(ctx, name)
	})
	if ctx.Err() != nil {
		_ = lease.Release()
		return nil, context.Cause(ctx)
	}
	return lease, nil
}

// free deletes the key, even if another caller has it.
func (s *SetNXDel) free(ctx context.Context, name string) error {
	reply, err := request.Ask(ctx, s.server.Client, nil, func() *redis.Cmd {
		return redisscript.Send(ctx, s.server.Client, "del", name)
	})
	if err != nil {
		return request.Ownership(0, err)
	}
	return request.Ownership(reply.Int())
}

package teaching

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/redislock/internal/request"
)

// SetNXWatch is SET NX PX with a random value, released by WATCH, GET, and MULTI, DEL, EXEC if the value is ours.
// This is the correct compare-and-delete without Lua:
// https://redis.io/docs/latest/develop/using-commands/transactions/ ("Optimistic locking"). If the key changes
// between the GET and the EXEC, because it was written or expired, EXEC does nothing, and the release reads the key
// again.
//
// The failure that it avoids: GET and then DEL without WATCH deletes another holder's key if the lease runs out in
// between. It costs more round trips, on one connection that is reserved for them.
//
// Round trips: 5 uncontended (acquire 1, release 4: WATCH; GET and MULTI; DEL and EXEC; and UNWATCH, which go-redis
// sends); contended 1 for every try. It waits as redislock.SetNX does.
//
// Promises: exclusion while no lease runs out; a lease that ends by the holder's own clock; a release never deletes
// another holder's key. It does not promise a fence, so a holder that was paused past its lease still writes; nor
// renewal, fairness, or survival of a fail-over.
type SetNXWatch struct {
	handle
	server *request.Server
}

// NewSetNXWatch returns a SetNXWatch on c. Close it when all leases have ended. If an option is invalid, Acquire
// returns an error that names it.
func NewSetNXWatch(c redis.UniversalClient, o SetNXOptions) *SetNXWatch {
	s := newServer(c, "setnx-watch", o.Lease)
	return &SetNXWatch{s.Handle(), s}
}

// Promise is what it promises with the defaults of its options.
func (*SetNXWatch) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Reentrant: true, SignalsLoss: true, FreedAfterCrash: 10 * time.Second,
	}
}

// Acquire tries until ctx ends, or once with TryOnce.
func (s *SetNXWatch) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return s.server.Poll(ctx, key, o, func(ctx context.Context) (*lock.Lease, error) { return s.try(ctx, key, o) })
}

func (s *SetNXWatch) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	// Every try has a new value, so that a late release of this one cannot delete the key of the next.
	name, value, length, cleanup := s.server.Names(key)[0], request.NewValue(o), s.server.Lease, s.server.Cleanup
	release := func(ctx context.Context) error { return s.free(ctx, name, value) }
	free := func(ctx context.Context) error { return cleanup.Free(ctx, length, release) }
	sent := time.Now()
	var underWay atomic.Int32
	taken, found, err := request.SetNX(ctx, &underWay, s.server.Client, name, value, length)
	switch {
	case err != nil:
		return nil, cleanup.Failed(ctx, &underWay, name, err, release)
	case !taken:
		return nil, found.Held(key)
	case request.LeaseOver(sent, length):
		request.Detached(ctx, free)
		return nil, &lock.HeldError{Key: key}
	}
	return request.Hold(key, lock.NoFence, sent, length, free), nil
}

// free deletes the key if its value is ours. If the key changes meanwhile, free reads it again, until ctx ends.
func (s *SetNXWatch) free(ctx context.Context, name, value string) error {
	compareAndDelete := func(tx *redis.Tx) error {
		var holder *redis.StringCmd
		var multi *redis.Cmd
		_, _ = tx.Pipelined(ctx, func(p redis.Pipeliner) error {
			holder, multi = p.Get(ctx, name), redisscript.Send(ctx, p, "multi")
			return nil
		})
		// MULTI must be answered before DEL is sent: without the right to MULTI, Redis runs a DEL behind it at once.
		if multi.Err() != nil {
			return multi.Err()
		}
		if holder.Val() != value {
			// The transaction ends, and is empty: the connection must not stay in it. Redis also ends it if the user
			// may not send EXEC.
			ended := request.Absent(redisscript.Send(ctx, tx, "exec").Err())
			if err := cmp.Or(ended, request.Absent(holder.Err())); err != nil {
				return err
			}
			if holder.Err() != nil {
				return lock.ErrExpired
			}
			return lock.ErrTaken
		}
		var del, exec *redis.Cmd
		_, _ = tx.Pipelined(ctx, func(p redis.Pipeliner) error {
			del, exec = redisscript.Send(ctx, p, "del", name), redisscript.Send(ctx, p, "exec")
			return nil
		})
		return cmp.Or(del.Err(), exec.Err())
	}
	for {
		ran := false
		err, unanswered := request.Ask(ctx, s.server.Client, nil, func() error {
			return s.server.Client.Watch(ctx, func(tx *redis.Tx) error {
				ran = true
				return compareAndDelete(tx)
			}, name)
		})
		if unanswered != nil {
			return driver.Down("ask redis", unanswered)
		}
		switch {
		case err == nil && !ran:
			// go-redis follows a key that is being moved a few times between the nodes, and then returns nil.
			if err := driver.Sleep(ctx, request.MovingPause); err != nil {
				return driver.Down("release "+name, err)
			}
		case errors.Is(err, redis.Nil): // EXEC did nothing: the key has changed
		case err == nil, errors.Is(err, lock.ErrExpired), errors.Is(err, lock.ErrTaken), errors.Is(err, lock.ErrDown):
			return err
		default:
			return request.Failure("release", name, err)
		}
	}
}

package redislock

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
	"example.com/stock/lock/redislock/internal/request"
)

// This file has the whole algorithm. The other files add:
//
//	acquire.lua, fence.lua       step 1 at the server, with the fence
//	redislock.go                 Replicas, and Evict
//	internal/request/setnx.go    the loop of step 2, and release.lua, which is step 4 at the server
//	internal/request/request.go  takes back a request without a reply, which the server may still execute
//	internal/request/cleanup.go  repeats a release without a reply in the background, so that no orphaned key stays
//	../keepalive.go              reports a loss by the holder's own clock before the server frees the key

//go:embed acquire.lua
var acquireSource string

var acquireScript = redisscript.New(fenceSource + acquireSource)

// SetNXOptions are the options of a SetNX. A zero field means its default.
type SetNXOptions struct {
	Lease    time.Duration // the server frees the key after this; default 10 s
	Replicas Replicas      // must acknowledge; default none
}

// SetNX is SET NX PX with a random value, released by compare-and-delete: https://redis.io/docs/latest/commands/set/
// ("Patterns").
//
//  1. If the key does not exist, set it to a value that no other try uses, with a time limit.
//  2. If it exists, sleep for a random time and go back to 1.
//  3. Rely on the key until its time limit, counted from before the request of step 1 was sent.
//  4. To release, delete the key if it still has the value of step 1.
//
// Round trips: 2 uncontended (acquire 1, release 1), even with Replicas; contended 1 for every try. Polling is not
// fair: the first caller to try after the release gets the key.
//
// Promises: exclusion while no lease runs out; the holder's lease reports when it runs out; a fence, so that the store
// refuses the late write of a holder that did not notice the end in time. It does not promise renewal (work that is
// longer than Lease loses the key), fairness, or to survive a fail-over to a replica that did not have the key yet.
// [Replicas] make such a loss less likely. After such a fail-over the fence still grows, because it is derived from the
// clock.
type SetNX struct {
	handle
	server *request.Server
}

// NewSetNX returns a SetNX on c. Close it when all leases have ended. If an option is invalid, Acquire returns an error
// that names it.
func NewSetNX(c redis.UniversalClient, o SetNXOptions) *SetNX {
	lease := cmp.Or(o.Lease, 10*time.Second)
	s := &request.Server{
		Client: c, Prefix: "lock", Parts: []string{"", ":fence"}, Reader: inspectScript, Lease: lease,
		Cleanup:  request.NewCleanup(driver.AtLeast("Lease", lease, driver.MinLease)),
		Replicas: o.Replicas.Number, ReplicaTimeout: o.Replicas.Timeout,
	}
	return &SetNX{s.Handle(), s}
}

// Promise is what it promises with the defaults of its options.
func (*SetNX) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Fenced: true, Reentrant: true, SignalsLoss: true,
		FreedAfterCrash: 10 * time.Second,
	}
}

// Acquire tries until ctx ends, or once with TryOnce.
func (s *SetNX) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	// Poll is step 2.
	return s.server.Poll(ctx, key, o, func(ctx context.Context) (*lock.Lease, error) { return s.try(ctx, key, o) })
}

// try is steps 1 and 3. Every try has a new value, so that a late release of this one cannot delete the key of the
// next.
func (s *SetNX) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	a := s.attempt(key, o)
	fence, sent, err := a.Request(ctx)
	if err != nil {
		return nil, err
	}
	return request.Hold(key, fence, sent, a.Lease, a.Free), nil
}

// attempt prepares the scripts of steps 1 and 4 with their keys and arguments.
func (s *SetNX) attempt(key string, o lock.Options) *request.Attempt {
	names, value := s.server.Names(key), request.NewValue(o)
	return &request.Attempt{
		Server: s.server, Options: o, Key: key, Value: value,
		Acquire: request.Call{Script: acquireScript, Keys: names, Args: []any{value, s.server.Lease.Milliseconds()}},
		Release: request.Call{Script: request.ReleaseScript, Keys: names[:1], Args: []any{value}},
	}
}

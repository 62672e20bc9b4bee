package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// SetNXDel is SET NX PX with a value that is the same for everybody, released by a plain DEL: the lock of most tutorials.
//
// The failure that it teaches: A works for longer than its lease, the key runs out, B takes it, and A, done at last, deletes B's key.
// Now C gets in beside B, B deletes C's key, and so on: one slow holder breaks the lock for everybody after it. The cure is a
// value of one's own, and to compare before the DEL, in one step ([SetNX], [SetNXWatch]).
//
// Without a value of its own it can also not clean up after itself: if the reply to the SET is lost, it cannot know whose key is
// there and leaves it, for a Lease at most. That a caller stops waiting loses no reply: a request is not cut off by its context,
// but waited for, up to a second longer. For the same reason a DEL that fails is not tried again later.
//
// Round trips: 2 uncontended (acquire 1, release 1); contended 1 for every try. It waits as [SetNX] does.
//
// Promises: exclusion until the first lease runs out during work. Does not promise: that whoever holds it is told that
// another deleted the key, because its own clock knows nothing of that; a fence, so that nothing stops the write; renewal, fairness, or
// survival of a fail-over.
type SetNXDel struct{ hand }

// NewSetNXDel makes a SetNXDel on c.
func NewSetNXDel(c redis.UniversalClient, o SetNXOptions) *SetNXDel {
	return &SetNXDel{newHand(c, "setnx-del", o)}
}

// Acquire tries, and if ctx allows tries again until ctx ends.
func (s *SetNXDel) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return s.poll(ctx, o, func() (*lock.Lease, error) { return s.try(ctx, key, o) })
}

func (s *SetNXDel) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	name := s.name(key)
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), lock.ReleaseTimeout)
	defer cancel()
	sent := time.Now()
	taken, other, err := bid(asking, s.client, name, "locked "+o.Owner, s.o.Lease)
	switch {
	case err != nil:
		return nil, failed(ctx, o, name, err)
	case !taken:
		return nil, other.held(key)
	case late(sent, s.o.Lease): // what is there by now is another's, or nobody's
		return nil, &lock.HeldError{Key: key}
	}
	lease := s.hold(key, sent, func(ctx context.Context) error { return s.free(ctx, name) })
	if ctx.Err() != nil {
		_ = lease.Release()
		return nil, context.Cause(ctx)
	}
	return lease, nil
}

// free deletes the key, whoever has it.
func (s *SetNXDel) free(ctx context.Context, name string) error {
	return verdict(sendOnce(ctx, s.client, "del", name).Int())
}

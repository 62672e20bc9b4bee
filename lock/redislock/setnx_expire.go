package redislock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// SetNXExpireOptions are the choices of a SetNXExpire; a zero field means its default.
type SetNXExpireOptions struct {
	SetNXOptions
	Repair      bool          // set an expiry on a key that was left without one; default: it blocks for ever
	RepairAfter time.Duration // how long a key must have been seen without expiry, in the same hands, to be repaired; default 1 s

	// Between is called between the two commands. It is for the lab: if it returns an error the holder "has crashed" there, and
	// Acquire returns that error and leaves the key as a crash would. Default nil.
	Between func(context.Context) error
}

// SetNXExpire is SETNX, and then PEXPIRE as a second command: how locks were written before Redis 2.6.12 gave SET its options
// (the warning is at https://redis.io/docs/latest/commands/setnx/), and how they still are. The release is right: it compares and
// deletes, so that there is one fault to see.
//
// The failure that it teaches: a holder that dies between the two commands leaves a key without an expiry (PTTL -1), and everybody
// waits for ever. The mend without SET NX PX is Repair: a contender that finds the same holder's key without expiry twice, at least
// RepairAfter apart, sets one. Not at once, because a living holder passes through that state too; should it be paused there
// for longer than that, it is still safe: the repaired key lives for a whole Lease from the repair, and the holder, which counts from
// before its SETNX, sees after its PEXPIRE that its time is over. (That PEXPIRE may hit the next holder's key. It then only lives longer.)
// All who use a key must have the same Lease.
//
// Round trips: 3 uncontended (acquire 2, release 1); contended 1 for every try, and 1 for a repair. It waits as [SetNX] does.
//
// Promises: exclusion while no lease runs out; the holder is told by its own clock when it does. Does not promise: that anybody follows a
// holder that crashed at the wrong moment, unless Repair is set (then within RepairAfter + Lease, if somebody asks
// meanwhile); a fence, so a holder that was paused past its lease still writes; renewal, fairness, or survival of a fail-over.
type SetNXExpire struct {
	hand
	o       SetNXExpireOptions
	release *script

	mu    sync.Mutex
	stuck map[string]suspicion // by key, until somebody sees it in order again
}

// A suspicion is that a holder died between its two commands.
type suspicion struct {
	value string // the holder's
	since time.Time
}

// NewSetNXExpire makes a SetNXExpire on c. Close it when no lease is held any more.
func NewSetNXExpire(c redis.UniversalClient, o SetNXExpireOptions) *SetNXExpire {
	o.fill()
	def(&o.RepairAfter, time.Second)
	return &SetNXExpire{
		hand: newHand(c, "setnx-expire", o.SetNXOptions), o: o,
		release: newScript(releaseSource), stuck: make(map[string]suspicion),
	}
}

// Acquire tries, and if ctx allows tries again until ctx ends.
func (s *SetNXExpire) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return s.poll(ctx, o, func() (*lock.Lease, error) { return s.try(ctx, key, o) })
}

func (s *SetNXExpire) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	// A token for every try: a release of this one that is made up for later must not hit the next.
	name, value := s.name(key), token(o)
	tell := func(ctx context.Context) error {
		return verdict(s.release.run(ctx, s.client, []string{name}, value).Int())
	}
	sent := time.Now()
	taken, other, err := bid(ctx, s.client, name, value, 0)
	switch {
	case err != nil:
		if !refused(err) {
			s.sweeper.recall(ctx, tell)
		}
		return nil, failed(ctx, o, name, err)
	case !taken:
		return nil, s.look(ctx, key, o, other)
	}
	if s.o.Between != nil {
		if err := s.o.Between(ctx); err != nil {
			return nil, fmt.Errorf("between SETNX and PEXPIRE of %s, which stays: %w", name, err)
		}
	}
	limited, err := s.client.PExpire(ctx, name, s.o.Lease).Result()
	switch {
	case err != nil:
		s.sweeper.recall(ctx, tell)
		return nil, failed(ctx, o, name, err)
	case !limited || late(sent, s.o.Lease):
		// The key was deleted, or we were paused in between until a repair may have let another in.
		s.sweeper.recall(ctx, tell)
		return nil, &lock.HeldError{Key: key}
	}
	return s.hold(key, sent, s.insist(tell)), nil
}

// look is what somebody does who did not get the key: it says who has it, and repairs it if that is wanted and needed.
func (s *SetNXExpire) look(ctx context.Context, key string, o lock.Options, other sight) error {
	held := other.held(key)
	if !s.o.Repair || !s.isStuck(key, other) {
		return held
	}
	// Not atomic with what was seen. If the key has changed hands meanwhile, its new holder gets at most a Lease more.
	if err := s.client.PExpire(ctx, s.name(key), s.o.Lease).Err(); err != nil {
		return failed(ctx, o, s.name(key), err)
	}
	held.Remaining = s.o.Lease
	return held
}

// isStuck is whether key has been without expiry in the same hands for RepairAfter.
func (s *SetNXExpire) isStuck(key string, other sight) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if other.value == "" || other.ttl >= 0 {
		delete(s.stuck, key)
		return false
	}
	if seen, ok := s.stuck[key]; ok && seen.value == other.value {
		return time.Since(seen.since) >= s.o.RepairAfter
	}
	s.stuck[key] = suspicion{other.value, time.Now()}
	return false
}

package redislock

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// SetNXOptions are the choices of a SetNX and its relatives; a zero field means its default.
type SetNXOptions struct {
	Lease      time.Duration // the server frees the key after this; default 10 s
	MinBackoff time.Duration // first pause between tries of a caller who waits; default 2 ms
	MaxBackoff time.Duration // longest pause; default 50 ms

	// Of SetNX alone, not of its relatives: as those of [WatchdogOptions].
	Replicas       int
	ReplicaTimeout time.Duration
}

// SetNX is SET NX PX with a random value, released by compare-and-delete: https://redis.io/docs/latest/commands/set/ ("Patterns").
//
// Round trips: 2 uncontended (acquire 1, release 1), with Replicas too; contended, one for every try. A caller with NoWait tries once. One who
// waits polls, with pauses that double from MinBackoff to MaxBackoff, each drawn at random between half and all of it, so
// that waiters do not march in step. Polling serves whoever asks at the right moment: it is not fair.
//
// Promises: exclusion while no lease runs out; the holder is told when it does; a fence, by which the store refuses the write
// of a holder that was not told in time. Does not promise: to outlast work that is longer than Lease (there is no renewal),
// fairness, or to survive a fail-over to a replica that had not heard of the key (Replicas makes that less likely, and see
// [WatchdogOptions] for what it does not promise); the fence then still grows with the clock.
type SetNX struct {
	server *server
	o      SetNXOptions
}

// NewSetNX makes a SetNX on c. Close it when no lease is held any more.
func NewSetNX(c redis.UniversalClient, o SetNXOptions) *SetNX {
	o.fill()
	return &SetNX{newServer(c, o.Lease, newAcks(o.Replicas, o.ReplicaTimeout, o.Lease)), o}
}

// Close gives up the releases that have not reached the server yet; their keys run out with the lease.
func (s *SetNX) Close() error {
	s.server.sweeper.close()
	return nil
}

// Acquire tries, and if ctx allows tries again until ctx ends.
func (s *SetNX) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return poll(ctx, o, backoff(s.o.MinBackoff, s.o.MaxBackoff), func() (*lock.Lease, error) {
		// A value for every try: a release of this one that is made up for later must not hit the next.
		claim := s.server.claim(key, o)
		sent := time.Now()
		fence, err := claim.try(ctx)
		switch {
		case err != nil:
			return nil, err
		case late(sent, s.o.Lease):
			detached(ctx, claim.free)
			return nil, &lock.HeldError{Key: key}
		}
		return claim.hold(sent, fence), nil
	})
}

func (o *SetNXOptions) fill() {
	def(&o.Lease, 10*time.Second)
	def(&o.MinBackoff, 2*time.Millisecond)
	def(&o.MaxBackoff, 50*time.Millisecond)
}

func def(d *time.Duration, value time.Duration) {
	if *d == 0 {
		*d = value
	}
}

package redislock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
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
func (s *SetNX) Acquire(ctx context.Context, key string) (*lock.Lease, error) {
	return poll(ctx, backoff(s.o.MinBackoff, s.o.MaxBackoff), func() (*lock.Lease, error) {
		// A value for every try: a release of this one that is made up for later must not hit the next.
		claim := s.server.claim(ctx, key)
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

// poll tries until there is a lease, ctx ends, or a try fails for another reason than that the key is held. Between tries it
// sleeps for what pause says. A ctx with NoWait has one try.
func poll(ctx context.Context, pause func() time.Duration, try func() (*lock.Lease, error)) (*lock.Lease, error) {
	var held error // what the last answer was
	for {
		lease, err := try()
		if err == nil {
			return lease, nil
		}
		if !errors.Is(err, lock.ErrHeld) {
			return nil, errors.Join(held, err)
		}
		held = err
		if lock.IsNoWait(ctx) {
			return nil, held
		}
		if !sleep(ctx, pause()) {
			return nil, errors.Join(held, context.Cause(ctx))
		}
	}
}

// backoff makes pauses that double from least to most, each drawn at random between half and all of it.
func backoff(least, most time.Duration) func() time.Duration {
	next := least
	return func() time.Duration {
		pause := next
		next = min(2*next, most)
		return pause/2 + rand.N(pause/2+1)
	}
}

// sleep pauses for d; false means that ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// hand is what the locks have in common that people write by hand: no fence, no renewal, and a token of their own.
type hand struct {
	client  redis.UniversalClient
	prefix  string // of the keys in Redis
	o       SetNXOptions
	sweeper *sweeper
}

func newHand(c redis.UniversalClient, prefix string, o SetNXOptions) hand {
	o.fill()
	return hand{c, prefix, o, newSweeper()}
}

func (h *hand) name(key string) string { return h.prefix + ":" + tag(key) }

// token is a value that only this acquisition would write.
func token(ctx context.Context) string { return uuid.NewString() + " " + lock.Owner(ctx) }

// poll polls as SetNX does.
func (h *hand) poll(ctx context.Context, try func() (*lock.Lease, error)) (*lock.Lease, error) {
	return poll(ctx, backoff(h.o.MinBackoff, h.o.MaxBackoff), try)
}

// hold makes the lease of a granted key. Only the holder's own clock tells of its loss.
func (h *hand) hold(key string, sent time.Time, free func(context.Context) error) *lock.Lease {
	l, _ := lock.NewLease(key, lock.NoFence, free)
	l.Keep(sent, lock.Keep{TTL: h.o.Lease})
	return l
}

// insist calls tell, and if the server does not answer goes on in the background until it does or the lease has run out.
// It is only for a tell that looks whose key it is: much may have happened when the server is back.
func (h *hand) insist(tell func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := tell(ctx)
		if errors.Is(err, lock.ErrDown) {
			h.sweeper.add(tell, time.Now().Add(h.o.Lease))
		}
		return err
	}
}

// failed says why a try failed that got no answer, or a refusal.
func failed(ctx context.Context, name string, err error) error {
	if refused(err) {
		return refusal(name, err)
	}
	return failure(ctx, "acquire "+name, err)
}

// Close gives up the releases that have not reached the server yet; their keys run out with the lease.
func (h *hand) Close() error {
	h.sweeper.close()
	return nil
}

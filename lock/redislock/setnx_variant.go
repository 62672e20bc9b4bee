package redislock

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

// SetNXOptions are the options of a SetNX and of its variants. A zero field means its default.
type SetNXOptions struct {
	Lease      time.Duration // the server frees the key after this; default 10 s
	MinBackoff time.Duration // first pause between the tries of a caller that waits; default 2 ms
	MaxBackoff time.Duration // longest pause; default 50 ms

	// Replicas is as in [WatchdogOptions]. The variants ignore it.
	Replicas Acknowledgement
}

func (o *SetNXOptions) fill() {
	def(&o.Lease, 10*time.Second)
	def(&o.MinBackoff, 2*time.Millisecond)
	def(&o.MaxBackoff, 50*time.Millisecond)
}

// check returns an error that names an invalid option.
func (o SetNXOptions) check() error {
	return cmp.Or(
		lock.AtLeast("Lease", o.Lease, lock.MinLease),
		lock.AtLeast("MinBackoff", o.MinBackoff, 0), lock.AtLeast("MaxBackoff", o.MaxBackoff, 0),
	)
}

// Close drops the releases that have not reached the server yet; their keys expire with the lease.
func (s *SetNX) Close() error {
	s.cleanup.close()
	return nil
}

// fenceLife is how long the server keeps the last fence of a key after its clock has passed that fence. After that
// the next fence, which is derived from the clock, is larger anyway. A fence could repeat only if the clock were set
// back by more than fenceLife. So the server keeps one key, of about 120 bytes and the name, for each lock that was
// held in the last day.
const fenceLife = 24 * time.Hour

// A variant is the common part of SetNXExpire, SetNXDel and SetNXWatch. They are typical handwritten locks, without
// fence and renewal.
type variant struct {
	client  redis.UniversalClient
	prefix  string // of the keys in Redis
	o       SetNXOptions
	cleanup *cleanup
}

func newVariant(c redis.UniversalClient, prefix string, o SetNXOptions) variant {
	o.fill()
	return variant{c, prefix, o, newCleanup()}
}

// Close drops the releases that have not reached the server yet; their keys expire with the lease.
func (v *variant) Close() error {
	v.cleanup.close()
	return nil
}

func (v *variant) name(key string) string { return v.prefix + ":" + tag(key) }

func (v *variant) poll(
	ctx context.Context, key string, o lock.Options, try func() (*lock.Lease, error),
) (*lock.Lease, error) {
	if err := cmp.Or(v.o.check(), lock.MayAcquire(ctx, key)); err != nil {
		return nil, err
	}
	return poll(ctx, o, backoff(v.o.MinBackoff, v.o.MaxBackoff), try)
}

// hold returns the lease of a granted key. Only the holder's own clock ends it.
func (v *variant) hold(key string, sent time.Time, free func(context.Context) error) *lock.Lease {
	return hold(key, lock.NoFence, sent, v.o.Lease, free)
}

// persist returns a function that calls release until the server has answered; see cleanup.persist.
func (v *variant) persist(release func(context.Context) error) func(context.Context) error {
	return v.cleanup.persist(release, v.o.Lease)
}

// failed undoes the possible effect of a try that failed with err, and returns the error of the try.
func (v *variant) failed(
	ctx context.Context, underWay *atomic.Int32, name string, err error,
	release func(context.Context) error,
) error {
	if !refused(err) {
		v.cleanup.undo(ctx, underWay, release)
	}
	return acquireError(ctx, name, err)
}

// newValue returns a value that only this acquisition writes: a random token, a blank and the owner's name.
func newValue(o lock.Options) string { return uuid.NewString() + " " + o.Owner }

// A keyState is the value and the time limit of a lock's key in Redis.
type keyState struct {
	value string        // of the holder; empty: there is no such key
	ttl   time.Duration // the remaining time; negative: no time limit, or no key
}

func (s keyState) held(key string) *lock.HeldError {
	return &lock.HeldError{Key: key, Holder: ownerOf(s.value), Remaining: max(s.ttl, 0)}
}

// setNX sets the key name if it does not exist, with a time limit if lease is not 0, and reads the key in the same
// round trip. The two commands are not atomic. Only the SET decides; the values that were read are only shown to
// people. After an error the outcome is unknown, unless the server refused. See ask for underWay.
func setNX(
	ctx context.Context, underWay *atomic.Int32, c redis.UniversalClient, name, value string, lease time.Duration,
) (taken bool, found keyState, err error) {
	type reply struct {
		taken bool
		found keyState
		err   error
	}
	r, err := ask(ctx, underWay, func() (r reply) {
		r.taken, r.found, r.err = sendSetNX(ctx, c, name, value, lease)
		return r
	})
	if err != nil {
		return false, keyState{}, err
	}
	return r.taken, r.found, r.err
}

func sendSetNX(
	ctx context.Context, c redis.UniversalClient, name, value string, lease time.Duration,
) (taken bool, found keyState, err error) {
	var set *redis.Cmd
	var get *redis.StringCmd
	var pttl *redis.DurationCmd
	_, _ = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		args := []any{"set", name, value}
		if lease > 0 {
			args = append(args, "px", lease.Milliseconds())
		}
		set = redisscript.Send(ctx, p, append(args, "nx")...)
		get, pttl = p.Get(ctx, name), p.PTTL(ctx, name)
		return nil
	})
	if err := set.Err(); !errors.Is(err, redis.Nil) {
		return err == nil, keyState{}, err
	}
	if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return false, keyState{}, err // the key has another type: it is no lock
	}
	return false, keyState{get.Val(), pttl.Val()}, nil
}

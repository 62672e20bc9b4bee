package redislock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
)

// SetNXOptions are the options of a SetNX and of its variants. A zero field means its default.
type SetNXOptions struct {
	Lease    time.Duration // the server frees the key after this; default 10 s
	Replicas Replicas      // must acknowledge; default none. The variants ignore it.
}

func (o *SetNXOptions) fill() { def(&o.Lease, 10*time.Second) }

// check returns an error that names an invalid option.
func (o SetNXOptions) check() error { return driver.AtLeast("Lease", o.Lease, driver.MinLease) }

// fenceLife is how long the server keeps the last fence of a key after its clock has passed that fence. After that
// the next fence, which is derived from the clock, is larger anyway. A fence could repeat only if the clock were set
// back by more than fenceLife. So the server keeps one key, of about 120 bytes and the name, for each lock that was
// held in the last day.
const fenceLife = 24 * time.Hour

// A variant is the common part of SetNXExpire, SetNXDel and SetNXWatch. They are typical handwritten locks, without
// fence and renewal.
type variant struct{ server }

func newVariant(c redis.UniversalClient, prefix string, o SetNXOptions) variant {
	o.fill()
	return variant{server{c, prefix, []string{""}, readStrings, o.Lease, Replicas{}, newCleanup(), o.check()}}
}

func (v *variant) poll(
	ctx context.Context, key string, o lock.Options, try func(context.Context) (*lock.Lease, error),
) (*lock.Lease, error) {
	if err := v.mayAcquire(ctx, key); err != nil {
		return nil, err
	}
	return poll(ctx, v.cleanup, o, backoff(), try)
}

// hold returns the lease of a granted key. Only the holder's own clock ends it.
func (v *variant) hold(key string, sent time.Time, free func(context.Context) error) *lock.Lease {
	return hold(key, lock.NoFence, sent, v.lease, free)
}

// persist returns a function that calls release until the server has answered; see cleanup.persist.
func (v *variant) persist(release func(context.Context) error) func(context.Context) error {
	return v.cleanup.persist(release, v.lease)
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
	args := []any{"set", name, value, "nx"}
	if lease > 0 {
		args = append(args, "px", lease.Milliseconds())
	}
	var set *redis.Cmd
	var get *redis.StringCmd
	var pttl *redis.DurationCmd
	_, err = ask(ctx, underWay, func() error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			set = redisscript.Send(ctx, p, args...)
			get, pttl = p.Get(ctx, name), p.PTTL(ctx, name)
			return nil
		})
		return err // each command has its own
	})
	if err != nil {
		return false, keyState{}, err // the variables belong to the request, which may go on
	}
	if err := set.Err(); !errors.Is(err, redis.Nil) {
		return err == nil, keyState{}, err
	}
	if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return false, keyState{}, err // the key has another type: it is no lock
	}
	return false, keyState{get.Val(), pttl.Val()}, nil
}

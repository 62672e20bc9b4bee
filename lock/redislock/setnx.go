package redislock

import (
	"context"
	_ "embed"
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

// SetNXOptions are the choices of a SetNX and of its variants; a zero field means its default.
type SetNXOptions struct {
	Lease      time.Duration // the server frees the key after this; default 10 s
	MinBackoff time.Duration // first pause between the tries of a caller that waits; default 2 ms
	MaxBackoff time.Duration // longest pause; default 50 ms

	// Only SetNX has it, not its variants. It means the same as in [WatchdogOptions].
	Replicas Acknowledgement
}

func (o *SetNXOptions) fill() {
	def(&o.Lease, 10*time.Second)
	def(&o.MinBackoff, 2*time.Millisecond)
	def(&o.MaxBackoff, 50*time.Millisecond)
}

// SetNX is SET NX PX with a random value, released by compare-and-delete:
// https://redis.io/docs/latest/commands/set/ ("Patterns").
//
// Round trips: 2 uncontended (acquire 1, release 1), with Replicas too; contended 1 for every try. A caller with
// TryOnce tries once. A caller that waits polls, with pauses that double from MinBackoff to MaxBackoff. Each pause
// is drawn at random between half and all of that, so that waiters do not march in step. Polling serves the caller
// that asks at the right moment: it is not fair.
//
// Promises: exclusion while no lease runs out; the holder is told when its lease does; a fence, by which the store
// refuses the write of a holder that was not told in time. Does not promise: to outlast work that is longer than Lease
// (there is no renewal), fairness, or to survive a fail-over to a replica that had not heard of the key. Replicas makes
// that less likely; see [WatchdogOptions] for what it does not promise. The fence then still grows with the clock.
type SetNX struct {
	server
	o                            SetNXOptions
	acquireScript, releaseScript *script
}

// NewSetNX returns a SetNX on c. Close it when no lease is held any more.
func NewSetNX(c redis.UniversalClient, o SetNXOptions) *SetNX {
	o.fill()
	return &SetNX{
		server:        server{c, o.Lease, o.Replicas, newCleanup()},
		o:             o,
		acquireScript: newScript(acquireSource),
		releaseScript: newScript(releaseSource),
	}
}

// Close gives up the releases that have not reached the server yet; their keys run out with the lease.
func (s *SetNX) Close() error {
	s.cleanup.close()
	return nil
}

// Acquire tries, and unless o says TryOnce tries again until ctx ends.
func (s *SetNX) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return poll(ctx, o, backoff(s.o.MinBackoff, s.o.MaxBackoff), func() (*lock.Lease, error) {
		return s.try(ctx, key, o)
	})
}

func (s *SetNX) try(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	// Every try has a value of its own: a late release of this one must not hit the next.
	a := s.attempt(key, o)
	sent := time.Now()
	fence, err := a.request(ctx)
	switch {
	case err != nil:
		return nil, err
	case leaseOver(sent, s.o.Lease):
		detached(ctx, a.free)
		return nil, &lock.HeldError{Key: key}
	}
	return hold(key, fence, sent, s.o.Lease, a.free), nil
}

func (s *SetNX) attempt(key string, o lock.Options) *attempt {
	names, value := s.names(key), newValue(o)
	lease, life := s.o.Lease.Milliseconds(), fenceLife.Milliseconds()
	return &attempt{
		server: &s.server, options: o, key: key, value: value,
		acquire: call{s.acquireScript, names, []any{value, lease, life}},
		release: call{s.releaseScript, names[:1], []any{value}},
	}
}

// names returns the keys in Redis of a lock: the lock and its last fence.
func (s *SetNX) names(key string) []string {
	name := "lock:" + tag(key)
	return []string{name, name + ":fence"}
}

// hold makes the lease of a key that was granted, which is not renewed.
func hold(
	key string, f lock.Fence, sent time.Time, lease time.Duration, free func(context.Context) error,
) *lock.Lease {
	l, _ := lock.NewLease(key, f, free)
	l.Keep(sent, lock.Keep{TTL: lease})
	return l
}

// poll tries until there is a lease, ctx ends, or a try fails for another reason than that the key is held. It sleeps
// between tries for what pause returns. With TryOnce there is one try.
func poll(
	ctx context.Context, o lock.Options, pause func() time.Duration, try func() (*lock.Lease, error),
) (*lock.Lease, error) {
	var held error // the last answer
	for {
		lease, err := try()
		if err == nil {
			return lease, nil
		}
		if !errors.Is(err, lock.ErrHeld) {
			return nil, errors.Join(held, err)
		}
		held = err
		if o.TryOnce {
			return nil, held
		}
		if err := lock.Sleep(ctx, pause()); err != nil {
			return nil, errors.Join(held, err)
		}
	}
}

// backoff returns pauses that double from least to most, each drawn at random between half and all of it.
func backoff(least, most time.Duration) func() time.Duration {
	next := least
	return func() time.Duration {
		pause := next
		next = min(2*next, most)
		return pause/2 + rand.N(pause/2+1)
	}
}

// A variant is what SetNXExpire, SetNXDel and SetNXWatch share. These are the locks that people write by hand: they
// have no fence and no renewal.
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

// Close gives up the releases that have not reached the server yet; their keys run out with the lease.
func (v *variant) Close() error {
	v.cleanup.close()
	return nil
}

func (v *variant) name(key string) string { return v.prefix + ":" + tag(key) }

// poll polls as SetNX does.
func (v *variant) poll(
	ctx context.Context, o lock.Options, try func() (*lock.Lease, error),
) (*lock.Lease, error) {
	return poll(ctx, o, backoff(v.o.MinBackoff, v.o.MaxBackoff), try)
}

// hold makes the lease of a key that was granted. Only the holder's own clock tells of its loss.
func (v *variant) hold(key string, sent time.Time, free func(context.Context) error) *lock.Lease {
	return hold(key, lock.NoFence, sent, v.o.Lease, free)
}

// persist returns a function that calls release until the server has answered; see cleanup.persist.
func (v *variant) persist(release func(context.Context) error) func(context.Context) error {
	return v.cleanup.persist(release, v.o.Lease)
}

// failed returns the error of a try that failed with err, after it has undone what the try may have done.
func (v *variant) failed(
	ctx context.Context, o lock.Options, name string, err error, release func(context.Context) error,
) error {
	if !refused(err) {
		v.cleanup.undo(ctx, release)
	}
	return acquireError(ctx, o, name, err)
}

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed release.lua
	releaseSource string
)

// fenceLife is how long the server's clock must be past the last fence of a key before that fence may be forgotten: a
// day. It may be forgotten because the next fence starts from the clock, which is larger by then. A fence could repeat
// only if the clock were set back by more than this after a day without a holder. So the server keeps one key, of about
// 120 bytes and the name, for each lock that was held in the last day. A fence ahead of the clock stays longer by the
// time that it is ahead.
const fenceLife = 24 * time.Hour

var unescape = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")

// untag returns the key of a hash tag, which is given without its braces.
func untag(inside string) string {
	if inside == "%" {
		return ""
	}
	return unescape.Replace(inside)
}

// newValue returns a value that only this acquisition writes: a random token, a blank and the owner's name.
func newValue(o lock.Options) string { return uuid.NewString() + " " + o.Owner }

// A keyState is what Redis has under the name of a lock.
type keyState struct {
	value string        // of the holder; empty: there is no such key
	ttl   time.Duration // what remains; negative: no time limit, or no key
}

// held returns s as an error.
func (s keyState) held(key string) *lock.HeldError {
	return &lock.HeldError{Key: key, Holder: ownerOf(s.value), Remaining: max(s.ttl, 0)}
}

// setNX takes the key name if it is free, by SET NX, with a time limit if lease is not 0. In the same round trip it
// reads what the key has. That is not one atomic step, but only the SET decides; the rest is for people to read.
// After an error the outcome is unknown, unless the server refused.
func setNX(
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
		set = sendOnce(ctx, p, append(args, "nx")...)
		get, pttl = p.Get(ctx, name), p.PTTL(ctx, name)
		return nil
	})
	if err := set.Err(); !errors.Is(err, redis.Nil) {
		return err == nil, keyState{}, err
	}
	if err := get.Err(); err != nil && !errors.Is(err, redis.Nil) {
		return false, keyState{}, err // of another type: no lock
	}
	return false, keyState{get.Val(), pttl.Val()}, nil
}

// queryError returns what a question about the key name says that was refused or got no answer.
func queryError(doing, name string, err error) error {
	if refused(err) {
		return refusal(name, err)
	}
	return lock.Down(doing+" "+name, err)
}

func sendOnce(ctx context.Context, c processor, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	_ = c.Process(ctx, once{cmd}) // the error is in cmd, too
	return cmd
}

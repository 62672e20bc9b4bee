package request

import (
	"context"
	_ "embed" // release.lua
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/driver/redisscript"
)

//go:embed release.lua
var releaseSource string

// ReleaseScript deletes a key if it has the value of its argument. Its reply is for Ownership.
var ReleaseScript = redisscript.New(releaseSource)

// NewValue returns a value that only this acquisition writes: a random token, a blank and the owner's name.
func NewValue(o lock.Options) string { return uuid.NewString() + " " + o.Owner }

// SetNX sets the key name if it does not exist, with a time limit if lease is not 0, and reads the key in the same
// round trip. The two commands are not atomic. Only the SET decides; the values that were read are only shown to
// people. After an error the outcome is unknown, unless the server refused. See Ask for underWay.
func SetNX(
	ctx context.Context, underWay *atomic.Int32, c redis.UniversalClient, name, value string, lease time.Duration,
) (taken bool, found Found, err error) {
	args := []any{"set", name, value, "nx"}
	if lease > 0 {
		args = append(args, "px", lease.Milliseconds())
	}
	var set *redis.Cmd
	var get *redis.StringCmd
	var pttl *redis.DurationCmd
	_, err = Ask(ctx, c, underWay, func() error {
		_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			set = redisscript.Send(ctx, p, args...)
			get, pttl = p.Get(ctx, name), p.PTTL(ctx, name)
			return nil
		})
		return err // each command has its own
	})
	if err != nil {
		return false, Found{}, err // the variables belong to the request, which may go on
	}
	if err := set.Err(); !errors.Is(err, redis.Nil) {
		return err == nil, Found{}, err
	}
	if err := Absent(get.Err()); err != nil {
		return false, Found{}, err // the key has another type: it is no lock
	}
	return false, Found{Value: get.Val(), TTL: pttl.Val()}, nil
}

// Hold returns the lease of a granted key. It is not renewed. Its Release calls free.
func Hold(
	key string, f lock.Fence, sent time.Time, lease time.Duration, free func(context.Context) error,
) *lock.Lease {
	l, _ := lock.NewLease(key, f, free)
	l.KeepAlive(sent, lock.Renewal{TTL: lease})
	return l
}

// Failed undoes the possible effect of a SetNX that failed with err, and returns the error of the acquisition.
func (c *Cleanup) Failed(
	ctx context.Context, underWay *atomic.Int32, name string, err error, release func(context.Context) error,
) error {
	if !Refused(err) {
		c.Undo(ctx, underWay, release)
	}
	return AcquireError(ctx, name, err)
}

// Poll acquires key by tries with pauses that become longer, from 2 to 50 ms. The actual pause is random, from half of
// that on, so that the waiters do not all try at the same time. See Cleanup.Poll.
func (s *Server) Poll(
	ctx context.Context, key string, o lock.Options, try func(context.Context) (*lock.Lease, error),
) (*lock.Lease, error) {
	next := 2 * time.Millisecond
	return s.Cleanup.Poll(ctx, key, o, try, func(ctx context.Context, _ error) error {
		pause := next
		next = min(2*next, 50*time.Millisecond)
		return driver.Sleep(ctx, pause/2+rand.N(pause/2+1))
	})
}

// Poll tries until there is a lease, ctx ends, or a try fails for another reason than a held key. With TryOnce it tries
// once. pause waits for the next try; held is the last answer.
func (c *Cleanup) Poll(
	ctx context.Context, key string, o lock.Options, try func(context.Context) (*lock.Lease, error),
	pause func(ctx context.Context, held error) error,
) (*lock.Lease, error) {
	if err := c.MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	ctx, stop := c.Wait(ctx)
	defer stop()
	var held error
	for {
		lease, err := try(ctx)
		switch {
		case err == nil:
			return lease, nil
		case !errors.Is(err, lock.ErrHeld):
			return nil, errors.Join(held, err)
		case o.TryOnce:
			return nil, err
		}
		held = err
		if err := pause(ctx, held); err != nil {
			return nil, errors.Join(held, err)
		}
	}
}

package redislock

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
)

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
func token(o lock.Options) string { return uuid.NewString() + " " + o.Owner }

// poll polls as SetNX does.
func (h *hand) poll(ctx context.Context, o lock.Options, try func() (*lock.Lease, error)) (*lock.Lease, error) {
	return poll(ctx, o, backoff(h.o.MinBackoff, h.o.MaxBackoff), try)
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
func failed(ctx context.Context, o lock.Options, name string, err error) error {
	if refused(err) {
		return refusal(name, err)
	}
	return failure(ctx, o, "acquire "+name, err)
}

// Close gives up the releases that have not reached the server yet; their keys run out with the lease.
func (h *hand) Close() error {
	h.sweeper.close()
	return nil
}

package locktest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// A trial is a plain lock on Redis, right unless it is given flaws: SET NX PX, a counter beside it for the fence,
// renewal and release by the owner alone, and what failed is taken back until it is gone.
type trial struct {
	flaws
	client *redis.Client
	lease  time.Duration
	life   *driver.Life
}

// flaws are what may be wrong with a trial.
type flaws struct {
	noExpiry    bool // the key stays for ever
	noLoss      bool // the holder is never told
	countsLate  bool // the holder counts from the reply
	believes    bool // takes a reply for a grant although its lease is over
	blindDelete bool // deletes the key whoever has it
	sameFence   bool // 1 for everybody
	tickets     bool // stands in a queue of numbers that nobody leaves
	mail        bool // a release grants the key to who waits, by a message that is believed whenever it comes
	noCleanup   bool // what failed is not taken back, and the expiry comes in a second command
	rawErrors   bool // errors as the client has them
	litter      bool // every acquisition leaves a key
	ghosts      bool // every acquisition leaves a goroutine
	patient     bool // its client has no time limits, and ignores contexts
	silent      bool // its release does not say that the key was gone
	pings       bool // a renewal only asks whether the server is alive
	impatient   bool // gives up a wait after a second, as if the server had refused it
	deaf        bool // Close ends no wait
	fenceless   bool // says nothing of the holder's fence
}

const (
	trialEnter = "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])" +
		" then return redis.call('incr', KEYS[2]) end return 0"
	trialRenew = "if redis.call('get', KEYS[1]) == ARGV[1]" +
		" then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
	// To the oldest waiter, if there is one: the key, for a lease, a fence, and a message.
	trialGrant = `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
local next = redis.call('lpop', KEYS[3])
if next then
  redis.call('set', KEYS[1], next, 'PX', ARGV[2])
  redis.call('publish', next, redis.call('incr', KEYS[2]))
end
return 1`
	trialRelease = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
)

// newTrial returns a trial for a user of the server; "": the default user, who may do everything.
func newTrial(addr, user string, lease time.Duration, f flaws) *trial {
	o := &redis.Options{
		Addr:                  addr,
		Username:              user,
		Password:              user,
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialTimeout:           time.Second,
		DialerRetries:         1,
		ReadTimeout:           3 * lease, // a reply may come after its lease
	}
	if f.patient {
		o.ContextTimeoutEnabled, o.ReadTimeout = false, -1
	}
	return &trial{flaws: f, lease: lease, client: redis.NewClient(o), life: driver.NewLife()}
}

func (t *trial) Close() error {
	t.life.Close()
	return t.client.Close()
}

// Evict implements driver.Evictor.
func (t *trial) Evict(ctx context.Context, key string) (lock.Fence, error) {
	fence := t.client.Incr(ctx, key+":fence")
	return lock.Fence(fence.Val()), errors.Join(fence.Err(), t.client.Del(ctx, key).Err())
}

// InspectAll implements driver.Inspector.
func (t *trial) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	states := make([]lock.State, len(keys))
	for i, key := range keys {
		value, err := t.client.Get(ctx, key).Result()
		if err != nil && err != redis.Nil {
			return nil, driver.Down("inspect", err)
		}
		fence := uint64(0)
		if !t.fenceless {
			fence, _ = t.client.Get(ctx, key+":fence").Uint64()
		}
		left := t.client.PTTL(ctx, key).Val()
		if _, who, held := strings.Cut(value, " "); held {
			states[i].Holder = &lock.Contender{
				Who: who, Fence: lock.Fence(fence), Remaining: left, Since: time.Now().Add(left - t.lease),
			}
		}
	}
	return states, nil
}

// Keys implements driver.Lister.
func (t *trial) Keys(ctx context.Context) (held []string, err error) {
	names, err := t.client.Keys(ctx, "*").Result()
	for _, name := range names {
		if t.client.PTTL(ctx, name).Val() > 0 { // no counter
			held = append(held, name)
		}
	}
	if err != nil {
		err = driver.Down("list", err)
	}
	return held, err
}

func (t *trial) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := driver.MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	if !t.deaf {
		var stop func()
		ctx, stop = t.life.Wait(ctx)
		defer stop()
	}
	token := uuid.NewString() + " " + o.Owner
	if t.tickets {
		if err := t.queue(ctx, key); err != nil {
			return nil, err
		}
	}
	if t.litter {
		t.client.Set(ctx, key+":"+token, "", time.Hour)
	}
	if t.ghosts {
		go time.Sleep(time.Hour) // longer than the process lives, however busy the computer is
	}
	began := time.Now()
	var mail <-chan *redis.Message
	for held := false; ; {
		sent := time.Now()
		fence, err := t.try(ctx, key, token)
		if deadline, ok := ctx.Deadline(); ok && err != nil && time.Now().After(deadline) {
			<-ctx.Done() // the socket's deadline passes a moment earlier
		}
		switch {
		case err != nil && ctx.Err() != nil && held:
			return nil, errors.Join(lock.ErrHeld, context.Cause(ctx))
		case err != nil && errors.Is(context.Cause(ctx), lock.ErrClosed):
			return nil, lock.ErrClosed
		case err != nil && t.rawErrors:
			return nil, err
		case noPermission(err):
			return nil, &driver.DownError{Server: "redis", Reason: "not-allowed", Denied: true}
		case err != nil:
			return nil, driver.Down("acquire", err)
		case fence != 0 && (t.believes || time.Since(sent) < lock.Valid(t.lease)):
			return t.hold(key, token, sent, fence), nil
		case o.TryOnce:
			return nil, lock.ErrHeld
		case t.impatient && time.Since(began) > time.Second:
			return nil, lock.ErrHeld
		}
		if !held && t.mail {
			box := t.client.Subscribe(ctx, token)
			defer box.Close()
			mail = box.Channel()
			t.client.RPush(ctx, key+":mail:fence", token)
		}
		held = true
		select {
		case <-ctx.Done():
			return nil, errors.Join(lock.ErrHeld, context.Cause(ctx))
		case granted := <-mail: // nil: never
			fence, _ := strconv.ParseUint(granted.Payload, 10, 64)
			return t.hold(key, token, time.Now(), lock.Fence(fence)), nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func noPermission(err error) bool { return redis.HasErrorPrefix(err, "NOPERM") }

func (t *trial) try(ctx context.Context, key, token string) (lock.Fence, error) {
	names := []string{key, key + ":fence"}
	if t.noExpiry || t.noCleanup {
		yes, err := t.client.SetNX(ctx, key, token, 0).Result()
		if err != nil || !yes {
			return 0, err
		}
		if t.noCleanup {
			if err := t.client.PExpire(ctx, key, t.lease).Err(); err != nil {
				return 0, err
			}
		}
		n, err := t.client.Incr(ctx, names[1]).Result()
		return lock.Fence(n), err
	}
	n, err := t.client.Eval(ctx, trialEnter, names, token, t.lease.Milliseconds()).Int64()
	if err != nil {
		t.takeBack(names[0], token)
	}
	return lock.Fence(n), err
}

// takeBack releases until the key has been found, or the lease is over.
func (t *trial) takeBack(key, token string) {
	t.life.Repeat(time.Now().Add(t.lease), func(ctx context.Context) bool {
		n, err := t.client.Eval(ctx, trialRelease, []string{key}, token).Int()
		return n == 1 && err == nil
	})
}

// queue draws a number and waits for it.
func (t *trial) queue(ctx context.Context, key string) error {
	number, err := t.client.Incr(ctx, key+":tickets:fence").Result()
	if err != nil {
		return err
	}
	for {
		served, _ := t.client.Get(ctx, key+":served:fence").Int64()
		if served >= number-1 {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(lock.ErrHeld, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (t *trial) hold(key, token string, sent time.Time, fence lock.Fence) *lock.Lease {
	if t.sameFence {
		fence = 1
	}
	if t.countsLate {
		sent = time.Now()
	}
	lease, _ := lock.NewLease(key, fence, func(ctx context.Context) error { return t.free(ctx, key, token) })
	keep := lock.Renewal{TTL: t.lease, Every: t.lease / 3, Renew: func(ctx context.Context) error {
		return t.verdict(t.client.Eval(ctx, trialRenew, []string{key}, token, t.lease.Milliseconds()).Int())
	}}
	switch {
	case t.noLoss, t.noExpiry:
		return lease
	case t.pings:
		keep.Renew = func(ctx context.Context) error { return t.client.Ping(ctx).Err() }
	}
	lease.KeepAlive(sent, keep)
	return lease
}

func (t *trial) free(ctx context.Context, key, token string) error {
	if t.tickets {
		t.client.Incr(ctx, key+":served:fence")
	}
	if t.blindDelete {
		return t.client.Del(ctx, key).Err()
	}
	if t.mail {
		names := []string{key, key + ":fence", key + ":mail:fence"}
		return t.verdict(t.client.Eval(ctx, trialGrant, names, token, t.lease.Milliseconds()).Int())
	}
	err := t.verdict(t.client.Eval(ctx, trialRelease, []string{key}, token).Int())
	if t.silent && !errors.Is(err, lock.ErrDown) {
		return nil
	}
	if errors.Is(err, lock.ErrDown) && !t.noCleanup {
		t.takeBack(key, token)
	}
	return err
}

func (t *trial) verdict(n int, err error) error {
	switch {
	case err != nil:
		return driver.Down("ask", err)
	case n == 0:
		return lock.ErrExpired
	}
	return nil
}

// trialLeft is every key but the counters.
func trialLeft(ctx context.Context, addrs []string, key string) ([]string, error) {
	c := redis.NewClient(&redis.Options{Addr: addrs[0]})
	defer c.Close()
	names, err := c.Keys(ctx, key+"*").Result()
	var found []string
	for _, name := range names {
		if !strings.HasSuffix(name, ":fence") {
			found = append(found, name)
		}
	}
	return found, err
}

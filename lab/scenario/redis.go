package scenario

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
)

// A naiveLock uses SET NX PX with a token, and a script that compares and deletes. The lock is correct; the scenarios
// misuse it.
type naiveLock struct {
	redis      *redis.Client
	key, token string
	ttl        time.Duration
}

func newNaiveLock(c *redis.Client, key string, ttl time.Duration) *naiveLock {
	return &naiveLock{c, key, uuid.NewString(), ttl}
}

// lock polls until it has the key or ctx ends, and reports whether it has the key.
func (l *naiveLock) lock(ctx context.Context) (bool, error) {
	for {
		switch ok, err := l.try(ctx); {
		case over(ctx):
			return false, nil
		case err != nil || ok:
			return ok, err
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// over reports whether ctx has ended, or will at this moment: the connection has the same deadline, and can report it
// first.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

func (l *naiveLock) try(ctx context.Context) (bool, error) {
	ok, err := l.redis.SetNX(ctx, l.key, l.token, l.ttl).Result()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return ok, err
}

// compareAndDelete deletes a key if it has the value of an attempt.
const compareAndDelete = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
	return redis.call('DEL', KEYS[1])`

func (l *naiveLock) unlock(ctx context.Context) error {
	// EVAL and not EVALSHA, because a new server does not have the script.
	return l.redis.Eval(ctx, compareAndDelete, []string{l.key}, l.token).Err()
}

// bothSell makes two holders of one lock sell the last unit: read, read, write, write.
func bothSell(b *lab.Testbed, one, other string) lab.Observation {
	c, stock := b.Redis(), b.SKU+"-stock"
	b.Must("SET", c.Set(b.Ctx, stock, 1, lab.Patience).Err())
	read := func(who string) int {
		n, err := c.Get(b.Ctx, stock).Int()
		b.Must("GET", err)
		b.Event(readOf(who, "redis", n), "reads", "quantity", n)
		return n
	}
	first, second := read(one), read(other)
	for who, n := range map[string]int{one: first, other: second} {
		b.Must("SET", c.Set(b.Ctx, stock, n-1, lab.Patience).Err())
		b.Event(writeOf(who, "redis", n-1), "writes", "quantity", n-1)
	}
	b.Require(first == second, "both read the same")
	b.Evidence(lab.Pair, []string{one, other}, "both-sold", "one", one, "other", other, "read", first)
	b.Evidence(lab.Balance, nil, "balance", "initial", 1, "sold", 2, "left", read("redis"))
	return lab.Oversells.Seen()
}

// readOf returns the event of a read by the lab's own code, just now, with the units that it read.
func readOf(who, server string, units int) lab.CaseEvent {
	n := int64(units)
	e := lab.CaseEvent{At: time.Now(), Lane: who, Kind: lab.Read, Who: who, To: server, Read: &n}
	if who == server {
		e.Kind, e.Who, e.To = lab.Note, "", "" // the lab itself reads
	}
	return e
}

// writeOf returns the event of a write by the lab's own code, just now, with the units that are left.
func writeOf(who, server string, units int) lab.CaseEvent {
	n := int64(units)
	return lab.CaseEvent{At: time.Now(), Lane: who, Kind: lab.Write, Who: who, To: server, Left: &n}
}

// unlockOf returns the event of an unlock by the lab's own code, just now.
func unlockOf(who string) lab.CaseEvent {
	return lab.CaseEvent{At: time.Now(), Lane: who, Kind: lab.Gives, Who: who, To: "redis"}
}

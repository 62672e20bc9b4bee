package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
)

// longLease outlasts its case.
const longLease = 2 * lab.Patience

// A naiveLock uses SET NX PX with a token, and a script that compares and deletes. The lock is correct; the scenarios
// misuse it. takes, mustTake and gives record themselves in the timeline; try, lock and unlock do not.
type naiveLock struct {
	b          *lab.Testbed
	who        string // in the timeline
	redis      *redis.Client
	key, token string
	ttl        time.Duration
}

// newNaiveLock returns a lock of the case's SKU in its Redis.
func newNaiveLock(b *lab.Testbed, who string, ttl time.Duration) *naiveLock {
	return newNaiveLockAt(b, who, b.Redis(), ttl)
}

// newNaiveLockAt is newNaiveLock for another Redis, or a client that reaches it through a proxy.
func newNaiveLockAt(b *lab.Testbed, who string, c *redis.Client, ttl time.Duration) *naiveLock {
	return &naiveLock{b, who, c, b.SKU, uuid.NewString(), ttl}
}

// takes tries once, and reports whether it has the key.
func (l *naiveLock) takes() bool {
	ok, err := l.try(l.b.Ctx)
	l.b.Must(l.who+": SET NX", err)
	key := ""
	if l.key != l.b.SKU {
		key = l.key + " "
	}
	l.b.Statement(l.who, "redis", fmt.Sprintf("SET %sNX: %t", key, ok))
	return ok
}

// mustTake stops the scenario if the key is not free.
func (l *naiveLock) mustTake() { l.b.Require(l.takes(), l.who+" gets the lock") }

// gives deletes the key if it is its own.
func (l *naiveLock) gives() {
	l.b.Must(l.who+": unlock", l.unlock(l.b.Ctx))
	l.b.Event(unlockOf(l.who), "unlock")
}

// lock polls until it has the key or ctx ends, and reports whether it has the key.
func (l *naiveLock) lock(ctx context.Context) (bool, error) {
	for {
		ok, err := l.try(l.b.Ctx)
		if ok || err != nil || loadtest.Sleep(ctx, 5*time.Millisecond) != nil {
			return ok, err
		}
	}
}

// waits is lock for as long as the testbed has patience. It stops the scenario if the key is never free.
func (l *naiveLock) waits() {
	patient, cancel := context.WithTimeout(l.b.Ctx, lab.Patience)
	defer cancel()
	ok, err := l.lock(patient)
	l.b.Must(l.who+" waits", err)
	l.b.Require(ok, l.who+" gets the lock")
	l.b.Statement(l.who, "redis", "SET NX: true")
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

// sellOne takes a unit from a stock in Redis, and returns what is left, or -1 if there is none.
const sellOne = `if tonumber(redis.call('GET', KEYS[1])) < 1 then return -1 end
	return redis.call('DECR', KEYS[1])`

// setFor takes the lock with an expiry of n seconds (EX) or milliseconds (PX), or until a time (PXAT).
func setFor(b *lab.Testbed, who, unit string, n int64) (bool, error) {
	err := b.Redis().Do(b.Ctx, "SET", b.SKU, who, "NX", unit, n).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	b.Statement(who, "redis", fmt.Sprintf("SET NX %s %d: %t", unit, n, err == nil))
	return err == nil, err
}

// diesWithALongKey makes A die with a key that outlives its lease, while B waits for it. from is when A asked for it.
func diesWithALongKey(b *lab.Testbed, from time.Time, lease, least time.Duration) lab.Outcome {
	b.Note("A", "gets-it-and-dies")
	b.TTL(b.SKU)
	newNaiveLock(b, "B", lab.Patience).waits()
	after := time.Since(from)
	b.Require(after > least, "the key outlives its lease")
	b.Evidence(lab.Waited, after, "let-in-past-the-lease", "after", after, "lease", lease)
	return b.Delayed(after)
}

// bothHold records whether A and B have one lock at once. If they do, both sell. value is that of the evidence.
func bothHold(b *lab.Testbed, value any, first, second bool) lab.Outcome {
	b.Evidence(lab.Hold, value, "both-hold", "a", first, "b", second)
	if first && second {
		return bothSell(b, "A", "B")
	}
	return lab.Safe
}

// bothSell makes two holders of one lock sell the last unit: read, read, write, write.
func bothSell(b *lab.Testbed, one, other string) lab.Outcome {
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
	return lab.Oversells
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

// errNotLocked is what Redisson throws at an unlock by another thread than the holder.
var errNotLocked = errors.New("not locked by current thread")

// A hashLock has its holder and the count of its entries in a hash, as Redisson does, and changes them in scripts.
type hashLock struct {
	b          *lab.Testbed
	who, owner string
}

// enter returns the count of entries, or 0 if another has the lock.
func (l hashLock) enter(lease time.Duration) int {
	n, err := l.b.Redis().Eval(l.b.Ctx, `
		if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end
		local n = redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
		redis.call('PEXPIRE', KEYS[1], ARGV[2])
		return n`, []string{l.b.SKU}, l.owner, lease.Milliseconds()).Int()
	l.b.Must("EVAL", err)
	l.b.Statement(l.who, "redis", fmt.Sprintf("EVAL enter %s: %d", l.owner, n))
	return n
}

// leave returns how many entries are left, or -1 if owner does not have the lock.
func (l hashLock) leave(owner string) int {
	n, err := l.b.Redis().Eval(l.b.Ctx, `
		if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end
		local n = redis.call('HINCRBY', KEYS[1], ARGV[1], -1)
		if n == 0 then redis.call('DEL', KEYS[1]) end
		return n`, []string{l.b.SKU}, owner).Int()
	l.b.Must("EVAL", err)
	l.b.Statement(l.who, "redis", fmt.Sprintf("EVAL leave %s: %d", owner, n))
	return n
}

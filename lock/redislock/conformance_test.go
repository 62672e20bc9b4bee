package redislock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/wire"
	"example.com/stock/lock/redislock"
)

// The leases are long compared with the time for which a busy computer may stop a process.
const (
	benchLease   = 2 * time.Second
	redlockLease = 3 * time.Second
)

func TestContender(t *testing.T) { locktest.Contend(t, benches()...) }

// Every lock on Redis keeps the contract, as a service would use it except for the length of its lease.
func TestStrategiesConform(t *testing.T) {
	t.Parallel()
	list := benches()
	one := start(t, 1)
	for i := range list {
		list[i].Servers = one
		if list[i].Name == "redlock" {
			list[i].Servers = start(t, 5)
		}
	}
	locktest.Conform(t, list...)
}

func benches() []locktest.Harness {
	list := []locktest.Harness{redlock()} // that which takes longest is the first
	for _, prefix := range prefixes {
		// As a service would use it.
		open := func(c []*redis.Client, lease time.Duration) (lock.Locker, error) {
			l := newLock(prefix, c[0], lease)
			if prefix == "watchdog" {
				return lock.HandOver(l, lock.Bound{}), nil
			}
			return l, nil
		}
		promise := newLock(prefix, nil, 0).(interface{ Promise() driver.Promise }).Promise()
		b := bench("redis-"+prefix, promise, open)
		switch prefix {
		case "setnx-expire":
			b.Breaks = map[string]string{
				"CrashPoints": "a crash between its two commands blocks the key for ever, as its caveat says",
			}
		case "setnx-del":
			b.Breaks = map[string]string{
				"Owner": "its DEL deletes whatever is there, as its caveat says",
				"Late":  "it cannot know whose key it would delete, and leaves it for a lease, as its caveat says",
			}
		case "lock":
			b.Name, b.Kept, b.Keeps = "redis-setnx", fences, keeps
		case "rlock":
			b.Renews = true
		case "watchdog":
			b.Renews, b.Kept, b.Keeps = true, fences, keeps
		}
		list = append(list, b)
	}
	return list
}

func redlock() locktest.Harness {
	open := func(c []*redis.Client, lease time.Duration) (lock.Locker, error) {
		// The nodes keep their data, and a busy computer makes them slow.
		return redislock.NewRedlock(c, redislock.RedlockOptions{
			Lease: lease, Quarantine: -1, NodeTimeout: time.Second,
		})
	}
	b := bench("redlock", new(redislock.Redlock).Promise(), open)
	b.Renews, b.Failing, b.Lease = true, 2, redlockLease
	b.Start = func(t testing.TB) []locktest.Server { return start(t, 5) }
	return b
}

// rights are those that the locks need: commands, and channels.
func rights() []string {
	return []string{
		"channels", "del", "eval", "evalsha", "exec", "exists", "get", "hdel", "hexists", "hget", "hincrby", "hkeys",
		"hset", "llen", "lpop", "lrem", "multi", "pexpire", "pttl", "publish", "rpush", "set", "subscribe", "time",
		"watch",
	}
}

// bench returns the harness of a lock.
func bench(
	name string, promise driver.Promise, lockOn func(c []*redis.Client, lease time.Duration) (lock.Locker, error),
) locktest.Harness {
	open := func(dial func(addr string) *redis.Client) locktest.Opener {
		return func(addrs []string, lease time.Duration) (lock.Locker, func() error, error) {
			var clients []*redis.Client
			for _, addr := range addrs {
				clients = append(clients, dial(addr))
			}
			l, err := lockOn(clients, lease)
			if err != nil {
				return nil, nil, err
			}
			return l, func() error {
				var failed []error
				if c, ok := l.(interface{ Close() error }); ok {
					failed = append(failed, c.Close())
				}
				for _, c := range clients {
					failed = append(failed, c.Close())
				}
				return errors.Join(failed...)
			}, nil
		}
	}
	// A Redlock refuses clients without ContextTimeoutEnabled.
	defaults := func(addr string) *redis.Client {
		return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: name == "redlock"})
	}
	patient := func(addr string) *redis.Client {
		return redis.NewClient(&redis.Options{
			Addr: addr, ContextTimeoutEnabled: name == "redlock", ReadTimeout: -1, WriteTimeout: -1,
		})
	}
	return locktest.Harness{
		Name: name, Promise: promise, Lease: benchLease, Wire: wire.Redis(), Left: left, Rights: rights(),
		Start: func(t testing.TB) []locktest.Server { return start(t, 1) },
		// The requests of the first of these have no goroutine, see request.Ask.
		Open: open(dial), Plain: []locktest.Opener{open(dial), open(defaults), open(patient)},
		Deprive: func(ctx context.Context, addrs []string, right string) (lock.Locker, func() error, error) {
			user := "without-" + right
			rule := map[bool]string{true: "resetchannels", false: "-" + right}[right == "channels"]
			for _, addr := range addrs {
				c := dial(addr)
				err := c.Do(ctx, "ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all", rule).Err()
				if err := errors.Join(err, c.Close()); err != nil {
					return nil, nil, err
				}
			}
			asUser := func(addr string) *redis.Client { return dialAs(user, addr) }
			return open(asUser)(addrs, 10*time.Minute)
		},
	}
}

func start(t testing.TB, n int) (list []locktest.Server) {
	for _, s := range started(t, n) {
		list = append(list, locktest.Server{
			Addr: s.Addr, Kill: s.Kill, Restart: s.Restart, Pause: s.Pause, Resume: s.Resume,
		})
	}
	return list
}

// dial returns a client as the service has it.
func dial(addr string) *redis.Client { return dialAs("default", addr) }

// dialAs is dial for a user with the password pw. The user default has none.
func dialAs(user, addr string) *redis.Client {
	options := &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: 2 * time.Second, DialerRetries: 1, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second,
	}
	if user != "default" {
		options.Username, options.Password = user, "pw"
	}
	return redis.NewClient(options)
}

// keeps says what stays of the locks with a fence.
const keeps = "the last fence of each key stays for a day after the last acquisition, " +
	"or for so long as it is ahead of the server's clock and a day"

// fences counts what stays.
func fences(ctx context.Context, addrs []string, key string) (int, error) {
	c := dial(addrs[0])
	names, err := c.Keys(ctx, "*"+key+"*:fence").Result()
	return len(names), errors.Join(err, c.Close())
}

// left lists every key that is not a fence, and every fence that stays for longer than a day and the time that it
// may be ahead of the clock here.
func left(ctx context.Context, addrs []string, key string) (found []string, err error) {
	for _, addr := range addrs {
		c := dial(addr)
		names, err := c.Keys(ctx, "*"+key+"*").Result()
		for _, name := range names {
			if ttl := c.TTL(ctx, name).
				Val(); !strings.HasSuffix(name, ":fence") || ttl <= 0 ||
				ttl > 24*time.Hour+time.Minute {
				found = append(found, name)
			}
		}
		if err := errors.Join(err, c.Close()); err != nil {
			return nil, err
		}
	}
	return found, nil
}

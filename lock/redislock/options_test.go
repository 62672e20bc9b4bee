package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// An option that no lock can keep is an error that names it, and no server that is down. Nothing is asked: no server
// listens here.
func TestAnInvalidOptionIsNamed(t *testing.T) {
	c := closer(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", ContextTimeoutEnabled: true, MaxRetries: -1}))
	masters := []redis.UniversalClient{c}
	for _, addr := range []string{"127.0.0.1:2", "127.0.0.1:3"} {
		masters = append(masters, closer(t, redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})))
	}
	const negative = -time.Second
	for option, o := range map[string]redislock.SetNXOptions{
		"Lease": {Lease: negative}, "MinBackoff": {MinBackoff: negative}, "MaxBackoff": {MaxBackoff: negative},
	} {
		named(t, option, redislock.NewSetNX(c, o))
		named(t, option, redislock.NewSetNXDel(c, o))
		named(t, option, redislock.NewSetNXWatch(c, o))
		named(t, option, redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{SetNXOptions: o}))
	}
	named(t, "Lease", redislock.NewSetNX(c, redislock.SetNXOptions{Lease: time.Microsecond}))
	named(t, "RepairAfter", redislock.NewSetNXExpire(c, redislock.SetNXExpireOptions{RepairAfter: negative}))
	for option, o := range map[string]redislock.WatchdogOptions{
		"Lease": {Lease: negative}, "LeaseTime": {LeaseTime: negative}, "MaxHold": {MaxHold: negative},
	} {
		named(t, option, redislock.NewWatchdog(c, o))
	}
	named(t, "Lease", redislock.NewRLock(c, redislock.RLockOptions{Lease: negative}))
	named(t, "LeaseTime", redislock.NewRLock(c, redislock.RLockOptions{LeaseTime: negative}))
	for option, o := range map[string]redislock.RedlockOptions{
		"Lease": {Lease: negative}, "NodeTimeout": {NodeTimeout: negative}, "MaxPause": {MaxPause: negative},
		"MaxHold": {MaxHold: negative},
	} {
		if _, err := redislock.NewRedlock(masters, o); !errors.Is(err, lock.ErrInvalid) || !mentions(err, option+" ") {
			t.Errorf("Redlock, %s: %v", option, err)
		}
	}
}

// named fails unless l refuses an acquisition because of the option.
func named(t *testing.T, option string, l interface {
	lock.Locker
	Close() error
},
) {
	t.Helper()
	closer(t, l)
	_, err := l.Acquire(t.Context(), "k", lock.Options{})
	if !errors.Is(err, lock.ErrInvalid) || errors.Is(err, lock.ErrDown) || !mentions(err, "option "+option+" ") {
		t.Errorf("%T, %s: %v, want ErrInvalid with the name", l, option, err)
	}
}

package redislock_test

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// pair starts a master, and a replica that follows it.
func pair(t *testing.T) (master, replica *stack.Server) {
	t.Helper()
	master, replica = stacktest.Redis(t), stacktest.Redis(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	c := client(t, master)
	c.ConfigSet(t.Context(), "repl-diskless-sync-delay", "0")
	if err := client(t, replica).Do(t.Context(), "REPLICAOF", host, port).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the replica follows", func() bool { return c.Do(t.Context(), "WAIT", 1, 10).Val() == int64(1) })
	return master, replica
}

// slowClient returns a client that gives a busy replica the time that it may need: it must not hurry a lock that
// waits for replicas.
func slowClient(t testing.TB, s *stack.Server) redis.UniversalClient {
	return closer(t, redis.NewClient(&redis.Options{
		Addr: s.Addr, ContextTimeoutEnabled: true, MaxRetries: -1, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
	}))
}

// acknowledged returns the locks that can wait for replicas, by the prefix of their keys.
func acknowledged(t testing.TB, c redis.UniversalClient, replicas int, timeout time.Duration) map[string]lock.Locker {
	return map[string]lock.Locker{
		"lock": closer(
			t,
			redislock.NewSetNX(
				c, redislock.SetNXOptions{Lease: time.Hour, Replicas: redislock.Replicas(replicas, timeout)},
			),
		),
		"watchdog": closer(
			t,
			redislock.NewWatchdog(
				c, redislock.WatchdogOptions{Lease: time.Hour, Replicas: redislock.Replicas(replicas, timeout)},
			),
		),
	}
}

// When Acquire returns the replica has the key. That takes no additional round trip.
func TestAnAcknowledgedLockIsOnTheReplica(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	c, observer := slowClient(t, master), client(t, replica)
	for name, l := range acknowledged(t, c, 1, 30*time.Second) {
		t.Run(name, func(t *testing.T) {
			_ = acquire(t, l, "k").Release() // connects and loads the scripts
			c.ScriptFlush(t.Context())
			_ = acquire(t, l, "k").Release()
			count := new(tripCounter)
			c.AddHook(count)
			lease := acquire(t, l, "k")
			if got := count.n.Swap(0); got != 1 {
				t.Errorf("an acquisition took %d round trips, want 1", got)
			}
			if observer.Exists(t.Context(), name+":{k}").Val() != 1 {
				t.Error("the replica does not have it")
			}
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
			if got := count.n.Load(); got != 1 {
				t.Errorf("a release took %d round trips, want 1", got)
			}
		})
	}
}

// With too few replicas the error says how many acknowledged and what to do. Nothing is left behind, and locks are
// granted again when the replicas are back.
func TestTooFewAcknowledge(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	c := slowClient(t, master)
	for name, l := range acknowledged(t, c, 2, 50*time.Millisecond) {
		if err := try(
			t, l,
		); !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld) || !mentions(err, "too-few-acknowledged") ||
			!mentions(err, "asked=2") {
			t.Errorf("%s with one of two replicas: %v, want ErrDown, the number and the setting", name, err)
		}
	}
	pause(t, replica)
	for name, l := range acknowledged(t, c, 1, 50*time.Millisecond) {
		for _, o := range []lock.Options{{}, {TryOnce: true}} {
			if _, err := l.Acquire(t.Context(), "k", o); !errors.Is(err, lock.ErrDown) ||
				!mentions(err, "too-few-acknowledged (n=0, asked=1") {
				t.Errorf("%s with a replica that hangs: %v, want ErrDown and the number", name, err)
			}
			if c.Exists(t.Context(), name+":{k}", name+":{k}:queue", name+":{k}:seen").Val() != 0 {
				t.Errorf("%s left something behind", name)
			}
		}
	}
	if err := try(t, watchdog(t, master, redislock.WatchdogOptions{})); err != nil {
		t.Errorf("a lock that asks no replica: %v", err)
	}
	resume(t, replica)
	for name, l := range acknowledged(t, c, 1, 50*time.Millisecond) {
		eventually(t, name+" is granted again", func() bool { return try(t, l) == nil })
	}
}

// A grant by a holder that asks no replica must be acknowledged to the new holder all the same.
func TestAGrantIsAcknowledged(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	c := slowClient(t, master)
	plain := watchdog(t, master, redislock.WatchdogOptions{})
	careful := acknowledged(t, c, 1, 30*time.Second)["watchdog"]
	held := acquire(t, plain, "k")
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := careful.Acquire(t.Context(), "k", lock.Options{})
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	awaitQueue(t, client(t, master), 1)
	_ = held.Release()
	next := <-got
	if client(t, replica).Get(t.Context(), "watchdog:{k}").Val() != c.Get(t.Context(), "watchdog:{k}").Val() {
		t.Error("the replica does not have the lock of its new holder")
	}
	if next.Fence() <= held.Fence() {
		t.Errorf("fence %d after %d", next.Fence(), held.Fence())
	}
	_ = next.Release()

	hasty := acknowledged(t, c, 1, 50*time.Millisecond)["watchdog"]
	held = acquire(t, plain, "k")
	refused := make(chan error, 1)
	go func() {
		_, err := hasty.Acquire(t.Context(), "k", lock.Options{})
		refused <- err
	}()
	// The entry in the queue waits for the replica, too; that the replica hangs by now does not matter yet.
	awaitQueue(t, client(t, master), 1)
	pause(t, replica)
	_ = held.Release()
	if err := <-refused; !errors.Is(err, lock.ErrDown) || !mentions(err, "too-few-acknowledged (n=0, asked=1") {
		t.Errorf("granted while the replica hangs: %v, want ErrDown", err)
	}
	_ = acquire(t, plain, "k").Release()
}

// A renewal that no replica has heard of does not count: a promoted replica would free the key when the last renewal
// that it heard of runs out.
func TestARenewalIsAcknowledged(t *testing.T) {
	t.Parallel()
	master, replica := pair(t)
	w := closer(t, redislock.NewWatchdog(slowClient(t, master), redislock.WatchdogOptions{
		Lease: 3 * time.Second, Replicas: redislock.Replicas(1, 100*time.Millisecond),
	}))
	lease := acquireEventually(t, w, "k")
	pause(t, replica)
	if err := awaitLoss(t, lease); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("err = %v, want ErrExpired", err)
	}
}

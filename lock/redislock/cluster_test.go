package redislock_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
	"example.com/stock/lock/redislock"
)

// A slot of a Redis Cluster is on its way to another node. A script whose keys are apart waits until they are together
// again, keys that have moved are followed, and no caller gets an error for it. The keys are inspected on every node.
//
// A script gets TRYAGAIN until the slot has arrived if one of its keys does not exist at all, such as the lock itself.
// A slot that does not arrive within the second for which a script is tried is a server that is down, and is asked
// again.
func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	nodes, err := servertest.Start(t, server.Options{}).StartRedisCluster(t.Context(), 3)
	servertest.Started(t, err)
	dial := func(t testing.TB) redis.UniversalClient {
		return closer(t, redis.NewUniversalClient(&redis.UniversalOptions{
			Addrs: nodes.Addrs(), ContextTimeoutEnabled: true, MaxRetries: -1, ReadTimeout: patience,
		}))
	}
	for _, name := range prefixes[:2] { // the others are for teaching
		t.Run(name, func(t *testing.T) {
			tell := func(node *server.Server, args ...any) string {
				answer, err := client(t, node.Addr).Do(t.Context(), args...).Result()
				if err != nil {
					t.Fatalf("%s, %v: %v", node.Name, args, err)
				}
				return fmt.Sprint(answer)
			}
			c := dial(t)
			l := open(t, name, c, time.Minute)
			for _, key := range []string{"a", "b", "c", "d"} { // on all nodes
				acquire(t, l, key)
			}
			listed, err := l.(driver.Lister).Keys(t.Context())
			states, wrong := lock.InspectAll(t.Context(), l, listed)
			if len(states) != 4 || slices.ContainsFunc(states, func(s lock.State) bool { return s.Holder == nil }) {
				t.Errorf("%q: %+v, %v, %v", listed, states, err, wrong)
			}
			// Of a slot that no other lock here moves, because the nodes may not agree on it yet.
			locktest.Release(t, acquire(t, l, name))
			held, key := acquire(t, l, name), name+":{"+name+"}"
			from, err := nodes.Owner(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			to, slot := nodes.Nodes[0], c.ClusterKeySlot(t.Context(), key).Val()
			if to == from {
				to = nodes.Nodes[1]
			}
			tell(to, "CLUSTER", "SETSLOT", slot, "IMPORTING", tell(from, "CLUSTER", "MYID"))
			tell(from, "CLUSTER", "SETSLOT", slot, "MIGRATING", tell(to, "CLUSTER", "MYID"))
			host, port, _ := net.SplitHostPort(to.Addr)
			tell(from, "MIGRATE", host, port, key, 0, 5000) // the fence stays for now
			freed, next := make(chan error, 1), locktest.Later(t, l, name, "waiter")
			go func() { freed <- held.Release() }()
			// They are put off; if they have not come so far, the test is only weaker.
			time.Sleep(100 * time.Millisecond)
			for _, part := range []string{"", ":fence", ":queue", ":seen"} {
				tell(from, "MIGRATE", host, port, key+part, 0, 5000)
			}
			for _, node := range append([]*server.Server{to}, nodes.Nodes...) {
				tell(node, "CLUSTER", "SETSLOT", slot, "NODE", tell(to, "CLUSTER", "MYID"))
			}
			if err := <-freed; err != nil && !errors.Is(err, lock.ErrDown) { // the slot came too late: it is repeated
				t.Errorf("release: %v", err)
			}
			lease := <-next
			if lease.Fence() <= held.Fence() && held.Fence() != lock.NoFence {
				t.Errorf("fence %d after %d", lease.Fence(), held.Fence())
			}
			locktest.Release(t, lease)
		})
	}
}

// When Acquire returns, as many replicas as must acknowledge have the key, and it takes no additional round trip. That
// also holds for a waiter that was granted the lock. If too few acknowledge, nothing is left behind.
func TestReplicasAcknowledge(t *testing.T) {
	t.Parallel()
	master, replica := servertest.Redis(t), servertest.Redis(t)
	c, observer := client(t, master.Addr), client(t, replica.Addr)
	host, port, _ := net.SplitHostPort(master.Addr)
	c.ConfigSet(t.Context(), "repl-diskless-sync-delay", "0")
	observer.Do(t.Context(), "REPLICAOF", host, port)
	locktest.Eventually(t, "the replica follows", func() bool {
		return c.Do(t.Context(), "WAIT", 1, 10).Val() == int64(1)
	})
	watchdog := func(number int, timeout time.Duration) lock.Locker {
		return closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{
			Lease: time.Hour, Replicas: redislock.Replicas{Number: number, Timeout: timeout},
		}))
	}
	w, count := watchdog(1, patience/2), new(tripCounter)
	locktest.Release(t, acquire(t, w, "k")) // connects and loads the scripts
	c.AddHook(count)
	lease := acquire(t, w, "k")
	if n := count.n.Load(); n != 1 || !exists(t, observer, "watchdog:{k}") {
		t.Errorf("%d round trips, and the replica has it: %v", n, exists(t, observer, "watchdog:{k}"))
	}
	next := locktest.Later(t, w, "k", "waiter")
	locktest.Eventually(t, "it waits", queued(t, c, "k", 1))
	locktest.Release(t, lease)
	lease = <-next
	got, want := observer.Get(t.Context(), "watchdog:{k}").Val(), c.Get(t.Context(), "watchdog:{k}").Val()
	if got != want {
		t.Errorf("the replica has %q, want %q", got, want)
	}
	locktest.Release(t, lease)
	if err := locktest.Try(t, watchdog(2, 50*time.Millisecond), "k"); !errors.Is(err, lock.ErrDown) ||
		!mentions(err, "too-few-acknowledged (n=1, asked=2") || exists(t, c, "watchdog:{k}") {
		t.Errorf("with one of two: %v, left behind: %v", err, exists(t, c, "watchdog:{k}"))
	}
}

package redislock_test

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
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
	nodes := servertest.RedisCluster(t)
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

// A lock that too few replicas acknowledge does not count, and nothing is left behind. Nor does that of a waiter that
// was granted the lock by a holder who does not wait for replicas.
func TestTooFewReplicasAcknowledge(t *testing.T) {
	t.Parallel()
	c := client(t, servertest.Redis(t).Addr) // without a replica
	held := acquire(t, open(t, "watchdog", c, time.Hour), "k")
	strict := closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{
		Lease: time.Hour, Replicas: redislock.Replicas{Number: 1, Timeout: 50 * time.Millisecond},
	}))
	got := make(chan error, 1)
	go func() {
		_, err := strict.Acquire(t.Context(), "k", lock.Options{})
		got <- err
	}()
	locktest.Eventually(t, "it has asked again, because it is subscribed", func() bool {
		asked := c.HVals(t.Context(), "watchdog:{k}:seen").Val() // ms.number
		return len(asked) == 1 && !strings.HasSuffix(asked[0], ".1")
	})
	locktest.Release(t, held)
	granted, trips := <-got, new(tripCounter)
	c.AddHook(trips)
	tried := locktest.Try(t, strict, "k")
	if n := trips.n.Load(); n != 2 {
		t.Errorf("to acquire it, to wait for replicas and to give it back took %d round trips, want 2", n)
	}
	for _, err := range []error{granted, tried} {
		if !errors.Is(err, lock.ErrDown) || !mentions(err, "too-few-acknowledged (n=0, asked=1") {
			t.Errorf("%v, want ErrDown and the number of replicas", err)
		}
	}
	if exists(t, c, "watchdog:{k}") {
		t.Error("the key was left behind")
	}
}

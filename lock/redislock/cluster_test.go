package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

func cluster(t *testing.T) *stack.RedisCluster {
	t.Helper()
	c, err := stacktest.Start(t, stack.Options{}).StartRedisCluster(t.Context(), 3)
	stacktest.Started(t, err)
	return c
}

// clusterClient returns a client as the service makes it, which knows the cluster already: the shortest waits of the
// suite are for the lock alone.
func clusterClient(t testing.TB, c *stack.RedisCluster) redis.UniversalClient {
	t.Helper()
	client := closer(t, redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: c.Addrs(), ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: 2 * time.Second, DialerRetries: 1, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
	}))
	err := client.(*redis.ClusterClient).ForEachMaster(
		t.Context(), func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() },
	)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// all returns the locks of this package on one client, by the prefix of their keys in Redis.
func all(t testing.TB, c redis.UniversalClient) map[string]lock.Locker {
	locks := map[string]lock.Locker{
		"lock":     closer(t, redislock.NewSetNX(c, redislock.SetNXOptions{})),
		"watchdog": closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{})),
		"rlock":    closer(t, redislock.NewRLock(c, redislock.RLockOptions{})),
	}
	for _, v := range variants {
		locks[v.name] = v.open(t, c, redislock.SetNXOptions{})
	}
	return locks
}

func TestLocksOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	nodes := cluster(t)
	t.Run("conform", func(t *testing.T) { conformOnACluster(t, nodes) })
	t.Run("spread", func(t *testing.T) { spreadOverACluster(t, nodes) })
	t.Run("queue", func(t *testing.T) { queueOnACluster(t, nodes) })
	t.Run("acknowledgements", func(t *testing.T) { acksOnACluster(t, nodes) })
	t.Run("lost replies", func(t *testing.T) { lostRepliesOnACluster(t, nodes) })
	t.Run("a slot that moves", func(t *testing.T) { movingSlot(t, nodes) })
	t.Run("a node is gone", func(t *testing.T) { withoutANode(t, nodes) })
}

func conformOnACluster(t *testing.T, nodes *stack.RedisCluster) {
	for name, promise := range map[string]lock.Promise{
		"lock": setnxPromise(), "watchdog": watchdogPromise(), "rlock": variantPromise(),
		"setnx-expire": variantPromise(), "setnx-del": variantPromise(), "setnx-watch": variantPromise(),
	} {
		t.Run(name, func(t *testing.T) {
			clients := []redis.UniversalClient{
				clusterClient(t, nodes),
				clusterClient(t, nodes),
				clusterClient(t, nodes),
			}
			opened := 0
			conform(t, promise, func(t testing.TB) lock.Locker {
				opened++
				return all(t, clients[opened%len(clients)])[name]
			})
		})
	}
}

// Keys of every sort, also those with braces of their own, are spread over all nodes, and all keys of one lock are
// on one node: a script with keys on two would be refused (CROSSSLOT). Waiters are woken across nodes, and Inspect
// and Keys find all.
func spreadOverACluster(t *testing.T, nodes *stack.RedisCluster) {
	c := clusterClient(t, nodes)
	keys := []string{"{", "}", "{}", "a{b}c", "{%}", "a b\n\"", "日本", "\x00\xff"}
	for i := range 20 {
		keys = append(keys, fmt.Sprint("sku-", i))
	}
	slices.Sort(keys)
	for name, l := range all(t, c) {
		t.Run(name, func(t *testing.T) {
			for _, key := range keys {
				held := acquire(t, l, key)
				if err := tryKey(t, l, key); !errors.Is(err, lock.ErrHeld) {
					t.Errorf("%q: err = %v, want ErrHeld", key, err)
				}
				_ = held.Release()
				acquire(t, l, key)
			}
			on := make(map[string]int)
			for _, node := range nodes.Nodes {
				found, err := client(t, node).Keys(t.Context(), name+":*").Result()
				if err != nil {
					t.Fatal(err)
				}
				on[node.Name] = len(found)
			}
			if len(on) != 3 || on["redis-cluster"] == 0 || on["redis-cluster-2"] == 0 || on["redis-cluster-3"] == 0 {
				t.Errorf("keys by node: %v, want some on each", on)
			}
			listed, err := l.(lock.Lister).Keys(t.Context())
			// Leases that the conformance suite has abandoned on the same cluster run out by themselves.
			listed = slices.DeleteFunc(listed, func(key string) bool { return strings.HasPrefix(key, "key-") })
			if err != nil || !slices.Equal(listed, keys) {
				t.Errorf("Keys: %q, %v; want %q", listed, err, keys)
			}
			for _, key := range keys {
				if inspect(t, l, key).Holder == nil {
					t.Errorf("%q: no holder", key)
				}
			}
		})
	}
}

// On every node: the queue is served in order and by message, Evict lets the next one in, and fences grow.
func queueOnACluster(t *testing.T, nodes *stack.RedisCluster) {
	one := closer(t, redislock.NewWatchdog(clusterClient(t, nodes), redislock.WatchdogOptions{}))
	two := closer(t, redislock.NewWatchdog(clusterClient(t, nodes), redislock.WatchdogOptions{}))
	seen := make(map[*stack.Server]bool)
	for i := 0; len(seen) < 3; i++ {
		key := fmt.Sprint("k", i)
		node, err := nodes.Owner(t.Context(), "watchdog:{"+key+"}")
		if err != nil {
			t.Fatal(err)
		}
		if seen[node] {
			continue
		}
		seen[node] = true
		first := acquire(t, one, key)
		got := make(chan *lock.Lease, 1)
		go func() {
			defer close(got)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if lease, err := two.Acquire(ctx, key, lock.Options{Owner: "next"}); err != nil {
				t.Error(err)
			} else {
				got <- lease
			}
		}()
		eventually(t, "the next one queues up", func() bool { return len(inspect(t, one, key).Waiters) == 1 })
		fence, err := lock.Evict(t.Context(), one, key)
		if err != nil {
			t.Fatal(err)
		}
		if h := inspect(t, one, key).Holder; h == nil || h.Who != "next" {
			t.Errorf("on %s: the holder is %+v, want the one who waited", node.Name, h)
		}
		next, ok := <-got
		if !ok {
			t.FailNow()
		}
		if first.Fence() >= fence || fence >= next.Fence() {
			t.Errorf("on %s: fences %d, %d, %d: they must grow", node.Name, first.Fence(), fence, next.Fence())
		}
		_ = next.Release()
	}
}

// A node that is gone takes its keys along, and only those.
func withoutANode(t *testing.T, nodes *stack.RedisCluster) {
	w := closer(t, redislock.NewWatchdog(clusterClient(t, nodes), redislock.WatchdogOptions{}))
	lost := make(map[string]bool)
	for i := range 12 {
		key := fmt.Sprint("k", i)
		node, err := nodes.Owner(t.Context(), "watchdog:{"+key+"}")
		if err != nil {
			t.Fatal(err)
		}
		lost[key] = node == nodes.Nodes[1]
		_ = acquire(t, w, key).Release()
	}
	if err := nodes.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	// The others refuse all keys only after cluster-node-timeout, 15 s.
	for key, gone := range lost {
		if err := tryKey(t, w, key); !gone && err != nil {
			t.Errorf("%s is on a node that runs: %v", key, err)
		}
	}
	for key, gone := range lost {
		if err := tryKey(t, w, key); gone && !errors.Is(err, lock.ErrDown) {
			t.Errorf("%s was on the node that is gone: %v, want ErrDown", key, err)
		}
	}
	if err := nodes.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key := range lost {
		eventually(t, key+" can be had again", func() bool { return tryKey(t, w, key) == nil })
	}
}

// WAIT goes to the node that has the key, also after the key has moved to another node. These nodes have no
// replicas, and the error must say so.
func acksOnACluster(t *testing.T, nodes *stack.RedisCluster) {
	c := clusterClient(t, nodes)
	refused := func(key string) {
		t.Helper()
		for name, l := range acknowledged(t, c, 1, 20*time.Millisecond) {
			if err := tryKey(t, l, key); !errors.Is(err, lock.ErrDown) ||
				!mentions(err, "too-few-acknowledged (n=0, asked=1") {
				t.Errorf("%s of %s: %v, want ErrDown and how many acknowledged", key, name, err)
			}
			if c.Exists(t.Context(), name+":{"+key+"}").Val() != 0 {
				t.Errorf("%s of %s was left behind", key, name)
			}
		}
	}
	for i := range 9 {
		refused(fmt.Sprint("k", i))
	}
	_, to, slot := migration(t, c, nodes, "{moving}")
	settle(t, nodes, slot, to)
	refused("moving")
}

// A client of a cluster repeats also where MaxRetries is -1.
func lostRepliesOnACluster(t *testing.T, nodes *stack.RedisCluster) {
	var proxies []*wire.Proxy
	behind := make(map[string]string)
	for _, addr := range nodes.Addrs() {
		p, err := wire.Listen(addr, wire.Redis())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		proxies, behind[addr] = append(proxies, p), p.Addr()
	}
	c := closer(t, redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: nodes.Addrs(), ContextTimeoutEnabled: true, MaxRetries: -1,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, behind[addr])
		},
	}))
	lostReplies(t, c, clusterClient(t, nodes), proxies...)
}

// A slot is on its way to another node. A script whose keys are apart waits until they are together again
// (TRYAGAIN), keys that have moved are followed (ASK), nobody is told that a lock was lost or that the server is
// down, and fences grow.
//
// A script gets TRYAGAIN until the slot has arrived if one of its keys does not exist at all, such as the lock
// itself. So the slot must arrive within the second for which a script is tried.
func movingSlot(t *testing.T, nodes *stack.RedisCluster) {
	c := clusterClient(t, nodes)
	for name, l := range all(t, c) {
		t.Run(name, func(t *testing.T) {
			key := "moving-" + name
			lockName := name + ":{" + key + "}"
			before := acquire(t, l, key)
			if err := before.Release(); err != nil {
				t.Fatal(err)
			}
			held := acquire(t, l, key)
			from, to, slot := migration(t, c, nodes, lockName)
			host, port, _ := net.SplitHostPort(to.Addr)
			migrate := func(names ...string) {
				for _, name := range names {
					if err := client(t, from).Migrate(t.Context(), host, port, name, 0, 5*time.Second).
						Err(); err != nil {
						t.Errorf("MIGRATE %s: %v", name, err)
					}
				}
			}
			migrate(lockName) // the fence stays for now
			freed := make(chan error, 1)
			go func() { freed <- held.Release() }()
			next := acquireLater(t, l, key)
			time.Sleep(
				100 * time.Millisecond,
			) // in which it is put off; if it has not come so far, the test is only weaker
			migrate(lockName+":fence", lockName+":queue", lockName+":seen")
			settle(t, nodes, slot, to)
			if err := <-freed; err != nil {
				t.Errorf("release: %v", err)
			}
			lease := <-next
			if lease == nil {
				t.FailNow()
			}
			if lease.Fence() < held.Fence() || lease.Fence() == held.Fence() && held.Fence() != lock.NoFence {
				t.Errorf("fence %d after %d", lease.Fence(), held.Fence())
			}
			if err := lease.Release(); err != nil {
				t.Errorf("release after the move: %v", err)
			}
			if err := tryKey(t, l, key); err != nil {
				t.Errorf("after the move: %v", err)
			}
		})
	}
}

// migration begins to move the slot of name to another node.
func migration(
	t *testing.T, c redis.UniversalClient, nodes *stack.RedisCluster, name string,
) (from, to *stack.Server, slot int64) {
	t.Helper()
	from, err := nodes.Owner(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Nodes {
		if node != from {
			to = node
		}
	}
	slot = c.ClusterKeySlot(t.Context(), name).Val()
	setSlot(t, to, slot, "IMPORTING", nodeID(t, from))
	setSlot(t, from, slot, "MIGRATING", nodeID(t, to))
	return from, to, slot
}

// settle gives the slot to its new node for good.
func settle(t *testing.T, nodes *stack.RedisCluster, slot int64, to *stack.Server) {
	t.Helper()
	setSlot(t, to, slot, "NODE", nodeID(t, to))
	for _, node := range nodes.Nodes {
		setSlot(t, node, slot, "NODE", nodeID(t, to))
	}
}

func setSlot(t *testing.T, node *stack.Server, slot int64, args ...any) {
	t.Helper()
	if err := client(t, node).Do(t.Context(), append([]any{"CLUSTER", "SETSLOT", slot}, args...)...).Err(); err != nil {
		t.Fatalf("SETSLOT %d %v: %v", slot, args, err)
	}
}

func nodeID(t *testing.T, node *stack.Server) string {
	t.Helper()
	return fmt.Sprint(client(t, node).Do(t.Context(), "CLUSTER", "MYID").Val())
}

package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
)

func cluster(t *testing.T) *stack.RedisCluster {
	t.Helper()
	c, err := own(t).StartRedisCluster(t.Context(), 3)
	started(t, err)
	return c
}

// clusterClient is made as the service makes it, and knows the cluster: the suite's shortest waits are for the lock alone.
func clusterClient(t testing.TB, c *stack.RedisCluster) redis.UniversalClient {
	t.Helper()
	client := closer(t, redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: c.Addrs(), ContextTimeoutEnabled: true, MaxRetries: -1, PoolSize: 32,
		DialTimeout: 2 * time.Second, DialerRetries: 1, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second,
	}))
	err := client.(*redis.ClusterClient).ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() })
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// all are the locks of this package on one client, with the prefix of their keys in Redis.
func all(t testing.TB, c redis.UniversalClient) map[string]lock.Locker {
	locks := map[string]lock.Locker{
		"lock":     closer(t, redislock.NewSetNX(c, redislock.SetNXOptions{})),
		"watchdog": closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{})),
	}
	for _, kind := range byHand {
		locks[kind.name] = kind.open(t, c, redislock.SetNXOptions{})
	}
	return locks
}

func TestLocksOnACluster(t *testing.T) {
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
		"lock": setnxPromise(), "watchdog": watchdogPromise(),
		"setnx-expire": byHandPromise(), "setnx-del": byHandPromise(), "setnx-watch": byHandPromise(),
	} {
		t.Run(name, func(t *testing.T) {
			clients := []redis.UniversalClient{clusterClient(t, nodes), clusterClient(t, nodes), clusterClient(t, nodes)}
			opened := 0
			conform(t, promise, func(t testing.TB) lock.Locker {
				opened++
				return all(t, clients[opened%len(clients)])[name]
			})
		})
	}
}

// Keys of every sort, also those with braces of their own, go to all nodes, and whatever belongs to one lock to one node: a script
// that reached for two would be refused (CROSSSLOT). Who waits is woken across nodes, Inspect and Keys find all.
func spreadOverACluster(t *testing.T, nodes *stack.RedisCluster) {
	c := clusterClient(t, nodes)
	keys := []string{"", "{", "}", "{}", "a{b}c", "{%}", "a b\n\"", "日本", "\x00\xff"}
	for i := range 20 {
		keys = append(keys, fmt.Sprint("sku-", i))
	}
	slices.Sort(keys)
	for name, l := range all(t, c) {
		t.Run(name, func(t *testing.T) {
			for _, key := range keys {
				held := acquire(t, l, key)
				if err := busyWith(t, l, key); !errors.Is(err, lock.ErrHeld) {
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
			// What the conformance suite has abandoned on the same cluster runs out by itself.
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
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
		if err := busyWith(t, w, key); !gone && err != nil {
			t.Errorf("%s is on a node that runs: %v", key, err)
		}
	}
	for key, gone := range lost {
		if err := busyWith(t, w, key); gone && !errors.Is(err, lock.ErrDown) {
			t.Errorf("%s was on the node that is gone: %v, want ErrDown", key, err)
		}
	}
	if err := nodes.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key := range lost {
		eventually(t, key+" can be had again", func() bool { return busyWith(t, w, key) == nil })
	}
}

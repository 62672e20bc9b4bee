package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
	"example.com/stock/stack/wire"
)

// A client that repeats by itself what got no answer must not repeat what a lock asks.
func TestLostRepliesWithAClientThatRepeats(t *testing.T) {
	s := stacktest.Redis(t)
	p, err := wire.Listen(s.Addr, wire.Redis())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	c := closer(t, redis.NewClient(&redis.Options{Addr: p.Addr(), ContextTimeoutEnabled: true, MaxRetries: 3}))
	lostReplies(t, c, client(t, s), p)
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

// lostReplies has each command of each lock done by the server while its reply is lost.
func lostReplies(t *testing.T, c, eye redis.UniversalClient, proxies ...*wire.Proxy) {
	lose := func(t *testing.T, match func([]byte) bool) {
		var all []*wire.Snare
		for _, p := range proxies {
			all = append(all, p.Set(wire.Trap{Match: match, Do: wire.CutReply}))
		}
		t.Cleanup(func() {
			for _, s := range all {
				s.Release()
			}
		})
	}
	for name, l := range all(t, c) {
		key := "lost-reply-" + name
		ours := wire.Contains("{" + key + "}")
		_ = acquire(t, l, key).Release() // connects and loads the scripts
		t.Run(name+" release", func(t *testing.T) {
			lease := acquire(t, l, key)
			last := ours
			if name == "setnx-watch" {
				last = wire.Contains("exec\r\n")
			}
			lose(t, last)
			if err := lease.Release(); !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrLost) {
				t.Errorf("%v, want ErrDown: the release was done, and nothing was lost", err)
			}
			eventually(t, "it is free", func() bool { return eye.Exists(t.Context(), name+":{"+key+"}").Val() == 0 })
		})
		t.Run(name+" acquire", func(t *testing.T) {
			lose(t, ours)
			lease, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
			if !errors.Is(err, lock.ErrDown) {
				t.Errorf("%v, %v, want ErrDown", lease, err)
			}
			if name != "setnx-del" { // which cannot know whose key it is, as it says
				eventually(t, "nothing is left", func() bool { return eye.Exists(t.Context(), name+":{"+key+"}").Val() == 0 })
			}
		})
	}
	t.Run("renewal", func(t *testing.T) {
		w := closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{Lease: 3 * time.Second}))
		lease := acquire(t, w, "lost-renewal")
		lose(t, wire.Contains("{lost-renewal}"))
		select {
		case <-lease.Done():
			t.Errorf("the lease was lost: %v", lease.Err())
		case <-time.After(4 * time.Second): // longer than the lease
		}
	})
	t.Run("eviction", func(t *testing.T) {
		w := closer(t, redislock.NewWatchdog(c, redislock.WatchdogOptions{}))
		held := acquire(t, w, "lost-eviction")
		fence, err := lock.Evict(t.Context(), w, "lost-eviction") // loads the script
		if err != nil || fence <= held.Fence() {
			t.Fatal(fence, err)
		}
		held = acquire(t, w, "lost-eviction")
		next := wants(t, w, "lost-eviction")
		eventually(t, "the next one queues up", func() bool { return len(inspect(t, w, "lost-eviction").Waiters) == 1 })
		lose(t, wire.Contains("{lost-eviction}"))
		if _, err := lock.Evict(t.Context(), w, "lost-eviction"); !errors.Is(err, lock.ErrDown) {
			t.Errorf("%v, want ErrDown", err)
		}
		lease := <-next
		if lease == nil {
			t.FailNow()
		}
		if err := lease.Release(); err != nil {
			t.Errorf("the next holder was evicted as well, by the repetition: %v", err)
		}
		if lease.Fence() <= held.Fence() {
			t.Errorf("fence %d after %d", lease.Fence(), held.Fence())
		}
	})
}

// A slot that is on its way to another node: what has come apart is put off until it is together again (TRYAGAIN), what
// is gone is followed (ASK), nobody is told that a lock was lost or that the server is down, and fences grow.
//
// A script gets TRYAGAIN until the slot has arrived if one of its keys does not exist at all, such as the lock itself:
// so it must arrive within the second for which a script is tried.
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
					if err := client(t, from).Migrate(t.Context(), host, port, name, 0, 5*time.Second).Err(); err != nil {
						t.Errorf("MIGRATE %s: %v", name, err)
					}
				}
			}
			migrate(lockName) // the fence stays for now
			freed := make(chan error, 1)
			go func() { freed <- held.Release() }()
			next := wants(t, l, key)
			time.Sleep(100 * time.Millisecond) // in which it is put off; if it has not come so far, the test is only weaker
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
			if err := busyWith(t, l, key); err != nil {
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

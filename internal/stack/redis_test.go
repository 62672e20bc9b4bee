package stack_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
)

// A clock that jumps takes a key whose time has not come, and takes that of its own server only. Time spans are not
// changed.
func TestClockOfItsOwn(t *testing.T) {
	t.Parallel()
	needs(t, stack.CheckClocks())
	s := start(t, stack.Options{Want: []stack.Kind{stack.Redis, stack.Redis}, Clocks: true})
	var clients []*redis.Client
	for _, name := range []string{"redis", "redis-2"} {
		if s.Server(name).StandIn != "" {
			needs(t, &stack.MissingError{Program: "redis-server", Install: "apt-get install redis-server"})
		}
		c := redis.NewClient(&redis.Options{Addr: s.Server(name).Addr})
		t.Cleanup(func() { _ = c.Close() })
		if err := c.Set(t.Context(), "k", "v", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		clients = append(clients, c)
	}
	if err := s.Server("redis").SetClock(2 * time.Hour); err != nil {
		t.Fatal(err)
	}
	within(t, "the key expires", func() bool { return clients[0].Exists(t.Context(), "k").Val() == 0 })
	now := func(i int) time.Time {
		at, err := clients[i].Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if ahead := now(0).Sub(now(1)); ahead < time.Hour {
		t.Errorf("the clock that jumped is %v ahead of the other, want some 2 h", ahead)
	}
	if ttl := clients[1].TTL(t.Context(), "k").Val(); ttl < 30*time.Minute {
		t.Errorf("the key on the other server lives for %v", ttl)
	}
	if err := clients[0].BLPop(t.Context(), 50*time.Millisecond, "none").Err(); err != redis.Nil {
		t.Errorf("a blocking command on the server that jumped: %v, want it to time out as ever", err)
	}
}

func TestOnlyAClockOfItsOwnIsSet(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Options{Want: []stack.Kind{stack.Redis}})
	if err := s.Server("redis").SetClock(time.Hour); err == nil {
		t.Error("the clock of the computer was set")
	}
}

// needs ends the test if err says that a program is missing.
func needs(t *testing.T, err error) {
	t.Helper()
	var missing *stack.MissingError
	switch {
	case errors.As(err, &missing) && os.Getenv("REQUIRE_BACKENDS") != "1":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// Every node has keys, Owner says which, and a node that was restarted serves its slots again.
func TestRedisCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	s := start(t, stack.Options{})
	c, err := s.StartRedisCluster(t.Context(), 3)
	needs(t, err)
	if s.Server("redis-cluster") != c.Nodes[0] || s.Server("redis-cluster-3") != c.Nodes[2] {
		t.Errorf("the nodes are %v", c.Addrs())
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), PoolSize: 100_000}) // see TestSentinels
	defer client.Close()
	keys := make(map[string]int64) // by the address of their owner
	for i := range 60 {
		key := fmt.Sprintf("{%d}:x", i)
		if err := client.Set(t.Context(), key, i, 0).Err(); err != nil {
			t.Fatal(err)
		}
		owner, err := c.Owner(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		keys[owner.Addr]++
	}
	for _, node := range c.Nodes {
		one := redisClient(node)
		if n, err := one.DBSize(t.Context()).Result(); n != keys[node.Addr] || n == 0 {
			t.Errorf("%s has %d keys (%v), by Owner %d", node.Name, n, err, keys[node.Addr])
		}
		one.Close()
	}
	if err := c.Nodes[1].Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[1].Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	within(t, "a restarted node serves again", func() bool {
		for i := range 60 {
			if client.Set(t.Context(), fmt.Sprintf("{%d}:x", i), i, 0).Err() != nil {
				return false
			}
		}
		return true
	})
}

func TestRedisClusterOfTwo(t *testing.T) {
	t.Parallel()
	if _, err := start(t, stack.Options{}).StartRedisCluster(t.Context(), 2); err == nil {
		t.Error("it was not refused")
	}
}

// The master is killed, a replica takes its place with what it had heard of, and the old master comes back as a
// replica.
func TestSentinels(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	s := start(t, stack.Options{})
	x, err := s.StartSentinels(t.Context(), stack.SentinelOptions{Replicas: 2, DownAfter: 3 * time.Second})
	needs(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	old, err := x.Master(ctx)
	if err != nil || old != s.Server("redis-ha") {
		t.Fatalf("master %v, %v", old, err)
	}
	// After as many failures as it may have connections, a client leaves it to a goroutine to ask once a second,
	// which outlives its Close by one.
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: x.Name, SentinelAddrs: x.Addrs(),
		PoolSize: 100_000,
	})
	defer client.Close()
	if err := client.Set(ctx, "heard", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	one := redisClient(old)
	defer one.Close()
	within(t, "both replicas have it", func() bool {
		for _, server := range x.Redis[1:] {
			replica := redisClient(server)
			n, err := replica.Exists(ctx, "heard").Result()
			replica.Close()
			if err != nil || n != 1 {
				return false
			}
		}
		return true
	})
	if err := x.Sever(ctx); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(ctx, "unheard", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	master, err := x.AwaitMaster(ctx, old)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "the client has found the new master",
		func() bool { return client.Set(ctx, "new", 1, 0).Err() == nil })
	for key, want := range map[string]int64{"heard": 1, "unheard": 0} {
		if n, err := client.Exists(ctx, key).Result(); err != nil || n != want {
			t.Errorf("on %s: %s exists %d times (%v), want %d", master.Name, key, n, err, want)
		}
	}
	if err := old.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	within(t, "the old master is a replica of the new one", func() bool {
		role, err := one.Do(ctx, "ROLE").Slice()
		return err == nil && role[0] == "slave"
	})
}

// startMini starts the stand-in for Redis. PATH is back as it was when the test ends, so no such test can be parallel.
func startMini(t *testing.T) (*stack.Server, *redis.Client) {
	t.Helper()
	t.Setenv("PATH", "")
	server := start(t, stack.Options{Want: []stack.Kind{stack.Redis}}).Server("redis")
	if server.StandIn == "" {
		t.Fatal("not the stand-in")
	}
	db := redisClient(server)
	t.Cleanup(func() { db.Close() })
	return server, db
}

func TestMiniRedisTimeGoesBy(t *testing.T) {
	_, db := startMini(t)
	ctx := t.Context()
	const ttl = 150 * time.Millisecond
	set := time.Now()
	if ok, err := db.SetNX(ctx, "lock", "me", ttl).Result(); err != nil || !ok {
		t.Fatal(ok, err)
	}
	if left := db.PTTL(ctx, "lock").Val(); left <= 0 || left > ttl {
		t.Errorf("PTTL = %v, want it in (0, %v]", left, ttl)
	}
	// Every way to look at the key must agree that it is gone; the first to look is a script, as a lock's is.
	script := redis.NewScript(`return redis.call("SET", KEYS[1], "another", "NX", "PX", 60000)`)
	within(t, "the key expires", func() bool { return script.Run(ctx, db, []string{"lock"}).Val() == "OK" })
	if took := time.Since(set); took < ttl {
		t.Errorf("the key expired after %v, before its %v", took, ttl)
	}
	if got := db.Get(ctx, "lock").Val(); got != "another" {
		t.Errorf("lock is held by %q", got)
	}
}

func TestMiniRedisPausesAndComesBackEmpty(t *testing.T) {
	server, db := startMini(t)
	ctx := t.Context()
	if err := db.Set(ctx, "sku", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := server.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if err := db.Get(short, "sku").Err(); err == nil {
		t.Error("a paused miniredis answered")
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if got, err := db.Get(ctx, "sku").Result(); got != "1" || err != nil {
		t.Errorf("after Resume: %q, %v", got, err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if listens(server.Addr) {
		t.Error("a killed miniredis listens")
	}
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if n, err := db.Exists(ctx, "sku").Result(); n != 0 || err != nil {
		t.Errorf("after Restart: %d keys, %v; want none", n, err)
	}
	if err := server.Pause(); err != nil { // must not hold up the end
		t.Fatal(err)
	}
}

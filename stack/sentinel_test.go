package stack_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/stack"
)

// The master is killed, a replica takes its place with what it had heard of, and the old master comes back as a replica.
func TestSentinels(t *testing.T) {
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
	// After as many failures as it may have connections, a client leaves it to a goroutine to ask once a second, which outlives its Close by one.
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: x.Name, SentinelAddrs: x.Addrs(), PoolSize: 100_000})
	defer client.Close()
	if err := client.Set(ctx, "heard", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	one := redisClient(old)
	defer one.Close()
	patiently(t, "both replicas have it", func() bool {
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
	patiently(t, "the client has found the new master", func() bool { return client.Set(ctx, "new", 1, 0).Err() == nil })
	for key, want := range map[string]int64{"heard": 1, "unheard": 0} {
		if n, err := client.Exists(ctx, key).Result(); err != nil || n != want {
			t.Errorf("on %s: %s exists %d times (%v), want %d", master.Name, key, n, err, want)
		}
	}
	if err := old.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	patiently(t, "the old master is a replica of the new one", func() bool {
		role, err := one.Do(ctx, "ROLE").Slice()
		return err == nil && role[0] == "slave"
	})
}

package stack_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/stack"
)

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

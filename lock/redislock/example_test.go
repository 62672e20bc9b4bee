package redislock_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/redislock"
)

// hold holds a key for a moment.
func hold(locker lock.Locker) {
	err := lock.Do(context.Background(), locker, "invoice/7", lock.Options{},
		func(_ context.Context, fence lock.Fence) error {
			fmt.Println("held, fenced:", fence != lock.NoFence)
			return nil
		})
	if err != nil {
		panic(err)
	}
}

// ContextTimeoutEnabled lets a request end with the deadline of its ctx. Without it, or without a ReadTimeout, the lock
// makes a goroutine for each request, which waits as long as the client does.
func ExampleNewWatchdog() {
	client := redis.NewClient(&redis.Options{
		Addr:                  servers.URL(server.Redis), // such as "localhost:6379"
		ContextTimeoutEnabled: true,
		MaxRetries:            -1, // the lock itself repeats what may be repeated
	})
	defer client.Close()
	locker := redislock.NewWatchdog(client, redislock.WatchdogOptions{Lease: 30 * time.Second})
	defer locker.Close()

	hold(locker)
	// Output: held, fenced: true
}

// The key is free after Lease, whether the work has ended or not.
func ExampleNewSetNX() {
	client := redis.NewClient(&redis.Options{
		Addr: servers.URL(server.Redis), ContextTimeoutEnabled: true, MaxRetries: -1,
	})
	defer client.Close()
	locker := redislock.NewSetNX(client, redislock.SetNXOptions{Lease: 10 * time.Second})
	defer locker.Close()

	hold(locker)
	// Output: held, fenced: true
}

// Redlock needs masters that are independent of each other. It has no fence.
func ExampleNewRedlock() {
	five := server.Options{Want: slices.Repeat([]server.Kind{server.Redis}, 5)}
	masters, err := server.Start(context.Background(), five)
	if err != nil {
		panic(err)
	}
	defer masters.Stop()
	var clients []*redis.Client
	for _, name := range []string{"redis", "redis-2", "redis-3", "redis-4", "redis-5"} {
		client := redis.NewClient(&redis.Options{
			Addr: masters.Server(name).Addr, ContextTimeoutEnabled: true, MaxRetries: -1,
		})
		defer client.Close()
		clients = append(clients, client)
	}
	locker, err := redislock.NewRedlock(clients, redislock.RedlockOptions{
		NodeTimeout: time.Second,
		Quarantine:  -1, // these servers have just been started, and nobody has held a lock on them
	})
	if err != nil {
		panic(err)
	}
	defer locker.Close()

	hold(locker)
	// Output: held, fenced: false
}

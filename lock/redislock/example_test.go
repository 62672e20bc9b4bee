package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/redislock"
)

// redisServers starts servers, and returns their addresses.
func redisServers(n int) (addrs []string, stop func() error) {
	want := make([]server.Kind, n)
	for i := range want {
		want[i] = server.Redis
	}
	servers, err := server.Start(context.Background(), server.Options{Want: want})
	if err != nil {
		panic(err)
	}
	for i := range n {
		name := "redis"
		if i > 0 {
			name = fmt.Sprint("redis-", i+1)
		}
		addrs = append(addrs, servers.Server(name).Addr)
	}
	return addrs, servers.Stop
}

// hold holds a key for a moment, and closes everything.
func hold(locker lock.Locker, closers ...func() error) {
	err := lock.Do(context.Background(), locker, "invoice/7", lock.Options{},
		func(_ context.Context, fence lock.Fence) error {
			fmt.Println("held, fenced:", fence != lock.NoFence)
			return nil
		})
	for _, closer := range closers {
		err = errors.Join(err, closer())
	}
	if err != nil {
		panic(err)
	}
}

// ContextTimeoutEnabled lets a request end with the deadline of its ctx. Without it, or without a ReadTimeout, the lock
// makes a goroutine for each request, which waits as long as the client does.
func ExampleNewWatchdog() {
	addrs, stop := redisServers(1)
	client := redis.NewClient(&redis.Options{
		Addr:                  addrs[0], // such as "localhost:6379"
		ContextTimeoutEnabled: true,
		MaxRetries:            -1, // the lock itself repeats what may be repeated
	})
	locker := redislock.NewWatchdog(client, redislock.WatchdogOptions{Lease: 30 * time.Second})
	hold(locker, locker.Close, client.Close, stop)
	// Output: held, fenced: true
}

// The key is free after Lease, whether the work has ended or not.
func ExampleNewSetNX() {
	addrs, stop := redisServers(1)
	client := redis.NewClient(&redis.Options{Addr: addrs[0], ContextTimeoutEnabled: true, MaxRetries: -1})
	locker := redislock.NewSetNX(client, redislock.SetNXOptions{Lease: 10 * time.Second})
	hold(locker, locker.Close, client.Close, stop)
	// Output: held, fenced: true
}

// Redlock needs masters that are independent of each other. It has no fence.
func ExampleNewRedlock() {
	addrs, stop := redisServers(5)
	var clients []*redis.Client
	var closers []func() error
	for _, addr := range addrs {
		client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, MaxRetries: -1})
		clients, closers = append(clients, client), append(closers, client.Close)
	}
	locker, err := redislock.NewRedlock(clients, redislock.RedlockOptions{
		NodeTimeout: time.Second,
		Quarantine:  -1, // these servers have just been started, and nobody has held a lock on them
	})
	if err != nil {
		panic(err)
	}
	hold(locker, append([]func() error{locker.Close}, append(closers, stop)...)...)
	// Output: held, fenced: false
}

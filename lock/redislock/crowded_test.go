package redislock_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

// All connections of the pool are in use: nothing was sent, so nothing is left to take back, and Redis is not to blame.
func TestNoFreeConnectionIsOverload(t *testing.T) {
	client := redis.NewClient(&redis.Options{
		Addr: servers.Redis(t).Addr, ContextTimeoutEnabled: true, MaxRetries: -1,
		PoolSize: 1, PoolTimeout: 50 * time.Millisecond,
	})
	defer client.Close()
	l := redislock.NewSetNX(client, redislock.SetNXOptions{})
	defer l.Close()
	conn := client.Conn()
	if err := conn.Ping(t.Context()).Err(); err != nil { // it keeps the connection
		t.Fatal(err)
	}
	_, err := l.Acquire(t.Context(), t.Name(), lock.Options{TryOnce: true})
	if !errors.Is(err, lock.ErrOverloaded) || errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld) {
		t.Errorf("%v, want overloaded and nothing else", err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	lease, err := l.Acquire(t.Context(), t.Name(), lock.Options{TryOnce: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
}

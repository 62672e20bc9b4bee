package stack_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/stack"
)

// A clock that jumps takes a key whose time has not come, and takes that of its own server only. Time spans are not changed.
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
	patiently(t, "the key expires", func() bool { return clients[0].Exists(t.Context(), "k").Val() == 0 })
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

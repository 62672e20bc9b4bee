package stack_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/stack"
)

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

// patiently polls for as long as a busy computer may take for what servers do among themselves.
func patiently(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) { // only a polling interval
		if time.Now().After(deadline) {
			t.Fatalf("not within 90 s: %s", what)
		}
	}
}

// Every node has keys, Owner says which, and a node that was restarted serves its slots again.
func TestRedisCluster(t *testing.T) {
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
	patiently(t, "a restarted node serves again", func() bool {
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

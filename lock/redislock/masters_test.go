package redislock_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
)

// masters are five independent servers for one test, and a client of each that no lock uses.
type masters struct {
	servers []*stack.Server
	eyes    []redis.UniversalClient
}

func fiveMasters(t testing.TB) *masters {
	t.Helper()
	s, err := stack.Start(t.Context(), stack.Options{Want: []stack.Kind{stack.Redis, stack.Redis, stack.Redis, stack.Redis, stack.Redis}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	if len(s.Missing()) > 0 {
		t.Skip("needs a real redis-server")
	}
	m := new(masters)
	for _, name := range []string{"redis", "redis-2", "redis-3", "redis-4", "redis-5"} {
		server := s.Server(name)
		m.servers, m.eyes = append(m.servers, server), append(m.eyes, client(t, server))
	}
	return m
}

// clients makes clients of its own for a lock.
func (m *masters) clients(t testing.TB) []redis.UniversalClient {
	var list []redis.UniversalClient
	for _, s := range m.servers {
		list = append(list, slowClient(t, s))
	}
	return list
}

// redlock opens a lock. Unless told otherwise its nodes are trusted though they have just been started, and have more time than by
// default, which a busy computer may need.
func (m *masters) redlock(t testing.TB, o redislock.RedlockOptions) *redislock.Redlock {
	t.Helper()
	if o.Quarantine == 0 {
		o.Quarantine = -1
	}
	if o.NodeTimeout == 0 {
		o.NodeTimeout = 2 * time.Second
	}
	r, err := redislock.NewRedlock(m.clients(t), o)
	if err != nil {
		t.Fatal(err)
	}
	return closer(t, r)
}

// with counts the nodes that have the key k.
func (m *masters) with(t testing.TB) (nodes int) {
	for _, c := range m.eyes {
		nodes += int(c.Exists(t.Context(), "redlock:{k}").Val())
	}
	return nodes
}

func (m *masters) each(t *testing.T, from, to int, do func(*stack.Server) error) {
	t.Helper()
	for _, s := range m.servers[from:to] {
		if err := do(s); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *masters) restart(t *testing.T, from, to int) {
	t.Helper()
	m.each(t, from, to, func(s *stack.Server) error { return s.Restart(t.Context()) })
}

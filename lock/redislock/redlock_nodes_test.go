package redislock_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
	"example.com/stock/stack/stacktest"
)

// One server under three addresses would be a majority that dies with one.
func TestRedlockWantsDistinctMasters(t *testing.T) {
	m := fiveMasters(t)
	clients := m.clients(t)
	for i, host := range []string{"localhost", "LOCALHOST"} {
		same := *clients[0].(*redis.Client).Options()
		same.Addr = strings.Replace(same.Addr, "127.0.0.1", host, 1)
		clients[i+1] = closer(t, redis.NewClient(&same))
	}
	r, err := redislock.NewRedlock(clients, redislock.RedlockOptions{Quarantine: -1, NodeTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, r)
	for what, err := range map[string]error{"Acquire": busy(t, r), "CheckMasters": redislock.CheckMasters(t.Context(), clients, 0)} {
		if !errors.Is(err, lock.ErrDown) || !mentions(err, "the same server") || !mentions(err, m.servers[0].Addr) || !mentions(err, "ocalhost:") {
			t.Errorf("%s: %v, want both addresses", what, err)
		}
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
}

// A replica does not count, not even one that lets itself be written to.
func TestRedlockWantsMasters(t *testing.T) {
	m := fiveMasters(t)
	for i, c := range m.eyes[:3] {
		c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1")
		if i > 0 {
			c.ConfigSet(t.Context(), "replica-read-only", "no")
		}
	}
	r := m.redlock(t, redislock.RedlockOptions{})
	if err := busy(t, r); !errors.Is(err, lock.ErrDown) || !mentions(err, "READONLY") || !mentions(err, "is a replica") {
		t.Errorf("three replicas: %v, want ErrDown", err)
	}
	if err := redislock.CheckMasters(t.Context(), m.eyes, 0); !errors.Is(err, lock.ErrDown) || !mentions(err, "is a replica") {
		t.Errorf("CheckMasters: %v, want ErrDown", err)
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
	m.eyes[0].Do(t.Context(), "REPLICAOF", "NO", "ONE")
	if err := busy(t, m.redlock(t, redislock.RedlockOptions{})); err != nil {
		t.Errorf("two replicas: %v", err)
	}
}

func TestCheckMasters(t *testing.T) {
	m := fiveMasters(t)
	if err := redislock.CheckMasters(t.Context(), m.eyes, 0); err != nil {
		t.Error(err)
	}
	if err := redislock.CheckMasters(t.Context(), m.eyes, time.Hour); !errors.Is(err, lock.ErrDown) || !mentions(err, "was started less than 1h") {
		t.Errorf("in quarantine: %v, want ErrDown", err)
	}
	m.each(t, 0, 3, (*stack.Server).Pause)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := redislock.CheckMasters(ctx, m.eyes, 0); !errors.Is(err, lock.ErrDown) || !mentions(err, "2 of 5 nodes count") {
		t.Errorf("three that hang: %v, want ErrDown", err)
	}
}

// What can be known to be wrong without asking a server.
func TestRedlockRefusesClients(t *testing.T) {
	s := stacktest.Redis(t)
	good := func(addr string) redis.UniversalClient {
		return closer(t, redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true}))
	}
	a, b := good("127.0.0.1:1"), good("127.0.0.1:2")
	for want, third := range map[string]redis.UniversalClient{
		"listed twice":          good("127.0.0.1:1"),
		"ContextTimeoutEnabled": closer(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:3"})),
		"many servers":          closer(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{s.Addr}})),
		"is nil":                nil,
	} {
		if _, err := redislock.NewRedlock([]redis.UniversalClient{a, b, third}, redislock.RedlockOptions{}); !mentions(err, want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
	if _, err := redislock.NewRedlock([]redis.UniversalClient{a, b}, redislock.RedlockOptions{}); !mentions(err, "at least 3") {
		t.Errorf("two clients: %v", err)
	}
}

// The holder is named if a majority of the nodes name it. A vote that was split has no winner, and what we won of it is given back.
func TestRedlockSplitVote(t *testing.T) {
	for name, row := range map[string]struct {
		values []string
		holder string
	}{
		"a majority":  {[]string{"1 app-1", "1 app-1", "1 app-1", "2 app-2"}, "app-1"},
		"two and two": {[]string{"1 app-1", "1 app-1", "2 app-2", "2 app-2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := fiveMasters(t)
			for i, value := range row.values {
				m.eyes[i].Set(t.Context(), "redlock:{k}", value, time.Minute)
			}
			var held *lock.HeldError
			if err := busy(t, m.redlock(t, redislock.RedlockOptions{})); !errors.As(err, &held) || held.Holder != row.holder {
				t.Errorf("err = %v, want held by %q", err, row.holder)
			}
			if got := m.with(t); got != 4 {
				t.Errorf("the key is on %d nodes, want those 4 that others have", got)
			}
		})
	}
}

// A release that reaches a minority only says so; one that reaches a majority is done.
func TestRedlockReleaseWithNodesDown(t *testing.T) {
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Minute})
	lease := acquire(t, r, "k")
	m.each(t, 0, 2, (*stack.Server).Kill)
	if err := lease.Release(); err != nil {
		t.Errorf("two nodes down: %v", err)
	}
	lease = acquire(t, r, "k")
	m.each(t, 2, 3, (*stack.Server).Kill)
	if err := lease.Release(); !errors.Is(err, lock.ErrDown) {
		t.Errorf("three nodes down: %v, want ErrDown", err)
	}
}

// deaf drops the scripts of a client: no release arrives.
type deaf struct {
	trips
	on atomic.Bool
}

func (d *deaf) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if d.on.Load() && strings.HasPrefix(cmd.Name(), "eval") {
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return next(ctx, cmd)
	}
}

// A release that did not reach a minority is done, and is made up for as soon as they answer.
func TestRedlockSweepsWhatItCouldNotRelease(t *testing.T) {
	m := fiveMasters(t)
	clients, cut := m.clients(t), new(deaf)
	for _, c := range clients[:2] {
		c.AddHook(cut)
	}
	r, err := redislock.NewRedlock(clients, redislock.RedlockOptions{Lease: time.Minute, Quarantine: -1, NodeTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, r)
	lease := acquire(t, r, "k")
	cut.on.Store(true)
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	if got := m.with(t); got != 2 {
		t.Fatalf("the key is on %d nodes, want those 2 that could not be told", got)
	}
	cut.on.Store(false)
	eventually(t, "nothing is left", func() bool { return m.with(t) == 0 })
}

// asked counts how often a node was asked who it is.
type asked struct{ trips }

func (a *asked) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (a *asked) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "info" {
			a.n.Add(1)
		}
		return next(ctx, cmds)
	}
}

func TestRedlockRoundTrips(t *testing.T) {
	m := fiveMasters(t)
	clients := m.clients(t)
	r, err := redislock.NewRedlock(clients, redislock.RedlockOptions{Quarantine: -1, NodeTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, r)
	count, who := new(trips), new(asked)
	for _, c := range clients {
		c.AddHook(count)
		c.AddHook(who)
	}
	_ = acquire(t, r, "k").Release() // connects and loads the script, which go-redis may do on two connections
	_ = acquire(t, r, "k").Release()
	_ = acquire(t, r, "k").Release()
	if who.n.Swap(0) < 5 {
		t.Error("the nodes were not asked who they are")
	}
	trips := func(what string, want int64) {
		t.Helper()
		if got := count.n.Swap(0); got != want {
			t.Errorf("%s took %d requests, want %d", what, got, want)
		}
	}
	count.n.Store(0)
	lease := acquire(t, r, "k")
	trips("an acquisition", 5)
	if err := busy(t, r); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	trips("a try in vain", 5)
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	trips("a release", 5)
	if who.n.Load() != 0 {
		t.Error("the nodes were asked who they are without need")
	}
	for _, eye := range m.eyes {
		eye.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes")
	}
	_ = acquire(t, r, "k").Release()
	if got := who.n.Load(); got < 5 {
		t.Errorf("after new connections %d nodes were asked who they are", got)
	}
}

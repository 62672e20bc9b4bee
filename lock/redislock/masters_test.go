package redislock_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/redislock"
)

// masters are five independent servers, a client of each that no lock uses, and a key for the test.
type masters struct {
	servers   []*stack.Server
	observers []redis.UniversalClient
	key, name string // name is that of the key in Redis
}

// fiveMasters starts servers for one test, which may stop and change them.
func fiveMasters(t testing.TB) *masters {
	t.Helper()
	s, err := startMasters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return newMasters(t, s)
}

// masterPool is five servers for all tests that leave them as they are. They start when the first test wants them.
type masterPool struct {
	mu    sync.Mutex
	stack *stack.Stack
}

// take returns the shared servers, with a key that no other test uses.
func (p *masterPool) take(t testing.TB) *masters {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stack == nil {
		s, err := startMasters(context.Background()) // they outlive this test
		if err != nil {
			t.Fatal(err)
		}
		p.stack = s
	}
	m := newMasters(t, p.stack)
	m.key = locktest.FreshKey()
	m.name = "redlock:{" + m.key + "}"
	return m
}

// stop ends the servers, if they were started.
func (p *masterPool) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stack == nil {
		return nil
	}
	return p.stack.Stop()
}

func startMasters(ctx context.Context) (*stack.Stack, error) {
	return stack.Start(ctx, stack.Options{Want: slices.Repeat([]stack.Kind{stack.Redis}, 5)})
}

func newMasters(t testing.TB, s *stack.Stack) *masters {
	t.Helper()
	if len(s.Missing()) > 0 {
		t.Skip("needs a real redis-server")
	}
	m := &masters{key: "k", name: "redlock:{k}"}
	for _, name := range []string{"redis", "redis-2", "redis-3", "redis-4", "redis-5"} {
		server := s.Server(name)
		m.servers, m.observers = append(m.servers, server), append(m.observers, client(t, server))
	}
	return m
}

// clients returns a client of each server for a lock.
func (m *masters) clients(t testing.TB) []redis.UniversalClient {
	var list []redis.UniversalClient
	for _, s := range m.servers {
		list = append(list, slowClient(t, s))
	}
	return list
}

// redlock opens a lock. Unless o says otherwise, its nodes count although they have just been started, and have more
// time than by default, which a busy computer may need.
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

// with returns the number of nodes that have the key.
func (m *masters) with(t testing.TB) (nodes int) {
	for _, c := range m.observers {
		nodes += int(c.Exists(t.Context(), m.name).Val())
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

// One server under three addresses would be a majority that dies with one.
func TestRedlockWantsDistinctMasters(t *testing.T) {
	t.Parallel()
	m := masterServers.take(t)
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
	acquired, checked := tryKey(t, r, m.key), redislock.CheckMasters(t.Context(), clients, 0)
	for what, err := range map[string]error{"Acquire": acquired, "CheckMasters": checked} {
		if !errors.Is(err, lock.ErrDown) || !mentions(err, "same-master") || !mentions(err, m.servers[0].Addr) ||
			!mentions(err, "ocalhost:") {
			t.Errorf("%s: %v, want both addresses", what, err)
		}
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
}

// A replica does not count, not even a writable one.
func TestRedlockWantsMasters(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	for i, c := range m.observers[:3] {
		c.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1")
		if i > 0 {
			c.ConfigSet(t.Context(), "replica-read-only", "no")
		}
	}
	r := m.redlock(t, redislock.RedlockOptions{})
	if err := tryKey(t, r, m.key); !errors.Is(err, lock.ErrDown) || !mentions(err, "READONLY") ||
		!mentions(err, "is a replica") {
		t.Errorf("three replicas: %v, want ErrDown", err)
	}
	if err := redislock.CheckMasters(t.Context(), m.observers, 0); !errors.Is(err, lock.ErrDown) ||
		!mentions(err, "is a replica") {
		t.Errorf("CheckMasters: %v, want ErrDown", err)
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
	m.observers[0].Do(t.Context(), "REPLICAOF", "NO", "ONE")
	if err := tryKey(t, m.redlock(t, redislock.RedlockOptions{}), m.key); err != nil {
		t.Errorf("two replicas: %v", err)
	}
}

func TestCheckMasters(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	if err := redislock.CheckMasters(t.Context(), m.observers, 0); err != nil {
		t.Error(err)
	}
	if err := redislock.CheckMasters(t.Context(), m.observers, time.Hour); !errors.Is(err, lock.ErrDown) ||
		!mentions(err, "was started less than 1h") {
		t.Errorf("in quarantine: %v, want ErrDown", err)
	}
	m.each(t, 0, 3, (*stack.Server).Pause)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := redislock.CheckMasters(ctx, m.observers, 0); !errors.Is(err, lock.ErrDown) ||
		!mentions(err, "quorum (good=2, all=5") {
		t.Errorf("three that hang: %v, want ErrDown", err)
	}
}

// Some faults are known without asking a server.
func TestRedlockRefusesClients(t *testing.T) {
	t.Parallel()
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
		if _, err := redislock.NewRedlock(
			[]redis.UniversalClient{a, b, third}, redislock.RedlockOptions{},
		); !mentions(err, want) {
			t.Errorf("err = %v, want %q", err, want)
		}
	}
	if _, err := redislock.NewRedlock([]redis.UniversalClient{a, b}, redislock.RedlockOptions{}); !mentions(
		err, "at least 3",
	) {
		t.Errorf("two clients: %v", err)
	}
}

// The holder is named if a majority of the nodes name it. If no contender has a majority nobody holds the lock, and
// what we got of it is given back.
func TestRedlockSplitVote(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		values []string
		holder string
	}{
		"a majority":  {[]string{"1 app-1", "1 app-1", "1 app-1", "2 app-2"}, "app-1"},
		"two and two": {[]string{"1 app-1", "1 app-1", "2 app-2", "2 app-2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := masterServers.take(t)
			for i, value := range row.values {
				m.observers[i].Set(t.Context(), m.name, value, time.Minute)
			}
			var held *lock.HeldError
			if err := tryKey(t, m.redlock(t, redislock.RedlockOptions{}), m.key); !errors.As(err, &held) ||
				held.Holder != row.holder {
				t.Errorf("err = %v, want held by %q", err, row.holder)
			}
			if got := m.with(t); got != 4 {
				t.Errorf("the key is on %d nodes, want those 4 that others have", got)
			}
		})
	}
}

// A release that reaches only a minority says so; one that reaches a majority is done.
func TestRedlockReleaseWithNodesDown(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Minute})
	lease := acquire(t, r, m.key)
	m.each(t, 0, 2, (*stack.Server).Kill)
	if err := lease.Release(); err != nil {
		t.Errorf("two nodes down: %v", err)
	}
	lease = acquire(t, r, m.key)
	m.each(t, 2, 3, (*stack.Server).Kill)
	if err := lease.Release(); !errors.Is(err, lock.ErrDown) {
		t.Errorf("three nodes down: %v, want ErrDown", err)
	}
}

// scriptDropper drops the scripts of a client: no release arrives.
type scriptDropper struct {
	tripCounter
	on atomic.Bool
}

func (d *scriptDropper) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if d.on.Load() && strings.HasPrefix(cmd.Name(), "eval") {
			cmd.SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		}
		return next(ctx, cmd)
	}
}

// A release that did not reach a minority is done, and is repeated there as soon as the nodes answer.
func TestRedlockSweepsWhatItCouldNotRelease(t *testing.T) {
	t.Parallel()
	m := masterServers.take(t)
	clients, cut := m.clients(t), new(scriptDropper)
	for _, c := range clients[:2] {
		c.AddHook(cut)
	}
	r, err := redislock.NewRedlock(
		clients, redislock.RedlockOptions{Lease: time.Minute, Quarantine: -1, NodeTimeout: 5 * time.Second},
	)
	if err != nil {
		t.Fatal(err)
	}
	closer(t, r)
	lease := acquire(t, r, m.key)
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

// infoCounter counts how often a node was asked who it is.
type infoCounter struct{ tripCounter }

func (a *infoCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (a *infoCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "info" {
			a.n.Add(1)
		}
		return next(ctx, cmds)
	}
}

func TestRedlockRoundTrips(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	clients := m.clients(t)
	r, err := redislock.NewRedlock(clients, redislock.RedlockOptions{Quarantine: -1, NodeTimeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, r)
	count, who := new(tripCounter), new(infoCounter)
	for _, c := range clients {
		c.AddHook(count)
		c.AddHook(who)
	}
	_ = acquire(t, r, m.key).Release() // connects and loads the script, which go-redis may do on two connections
	_ = acquire(t, r, m.key).Release()
	_ = acquire(t, r, m.key).Release()
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
	lease := acquire(t, r, m.key)
	trips("an acquisition", 5)
	if err := tryKey(t, r, m.key); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	trips("a try in vain", 5)
	if err := lease.Release(); err != nil {
		t.Error(err)
	}
	trips("a release", 5)
	_, _ = r.InspectAll(t.Context(), make([]string, 200))
	trips("an inspection of 200 keys", 5)
	if who.n.Load() != 0 {
		t.Error("the nodes were asked who they are without need")
	}
	for _, observer := range m.observers {
		observer.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes")
	}
	_ = acquire(t, r, m.key).Release()
	if got := who.n.Load(); got < 5 {
		t.Errorf("after new connections %d nodes were asked who they are", got)
	}
}

func TestRedlockTellsTheHolder(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Minute})
	if s := inspect(t, r, m.key); s.Holder != nil || s.Waiters != nil || s.Scope != lock.Cluster {
		t.Errorf("a free key: %+v", s)
	}
	held, err := r.Acquire(t.Context(), m.key, lock.Options{Owner: "app-1/r 1"})
	if err != nil {
		t.Fatal(err)
	}
	if err := locktest.SameStates(t.Context(), r, []string{"another", m.key}); err != nil {
		t.Error(err)
	}
	m.each(t, 0, 2, (*stack.Server).Kill)
	h := inspect(t, lock.Observe(r, lock.Events{}), m.key).Holder
	if h == nil || h.Who != "app-1/r 1" || h.Remaining <= 0 || h.Remaining > time.Minute || h.Fence != lock.NoFence ||
		!h.Since.IsZero() {
		t.Errorf("with two nodes down: %+v, want app-1/r 1, a minute at most, neither fence nor since", h)
	}
	if keys, err := r.Keys(t.Context()); err != nil || !slices.Equal(keys, []string{"k"}) {
		t.Errorf("keys %q, %v", keys, err)
	}
	if _, err := lock.Evict(t.Context(), r, m.key); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("evict: %v, want ErrUnsupported: there is no fence", err)
	}
	if err := held.Err(); err != nil {
		t.Errorf("the holder: %v", err)
	}
	if err := held.Release(); err != nil {
		t.Error(err)
	}
	if s := inspect(t, r, m.key); s.Holder != nil {
		t.Errorf("after the release: %+v", s.Holder)
	}
}

// Rows say what each node has: the value, and the seconds for which it lasts; empty: nothing. A "-" is a node that
// is down.
func TestRedlockMajorityView(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	m := fiveMasters(t)
	for _, row := range []struct {
		name      string
		nodes     [5]string
		lasts     [5]int
		holder    string // "": nobody
		remaining int
		listed    bool   // Keys lists the key
		down      string // what the ErrDown says
	}{
		{"all", [5]string{"1 a", "1 a", "1 a", "1 a", "1 a"}, [5]int{10, 20, 30, 40, 50}, "a", 30, true, ""},
		{"three", [5]string{"", "1 a", "", "1 a", "1 a"}, [5]int{0, 70, 0, 60, 50}, "a", 50, true, ""},
		{
			"three, and two others",
			[5]string{"2 b", "1 a", "2 b", "1 a", "1 a"},
			[5]int{90, 70, 90, 60, 50},
			"a", 50, true, "",
		},
		{"two and two", [5]string{"2 b", "1 a", "2 b", "1 a", ""}, [5]int{90, 90, 90, 90, 0}, "", 0, true, ""},
		{"two", [5]string{"1 a", "1 a", "", "", ""}, [5]int{90, 90, 0, 0, 0}, "", 0, false, ""},
		{"three of four", [5]string{"1 a", "1 a", "1 a", "", "-"}, [5]int{90, 80, 70, 0, 0}, "a", 70, true, ""},
		{
			"two, and one is down",
			[5]string{"1 a", "1 a", "", "", "-"},
			[5]int{90, 90, 0, 0, 0},
			"", 0, false,
			`majority-not-known (who="a", n=2, all=5, silent=1)`,
		},
		{"one, and one is down", [5]string{"1 a", "", "", "", "-"}, [5]int{90, 0, 0, 0, 0}, "", 0, false, ""},
		{
			"three are down",
			[5]string{"1 a", "1 a", "-", "-", "-"},
			[5]int{90, 90, 0, 0, 0},
			"", 0, false,
			"quorum (good=2, all=5, must=3",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			remaining := time.Duration(row.remaining) * time.Second
			for i, value := range row.nodes {
				m.observers[i].FlushAll(t.Context())
				switch value {
				case "":
				case "-":
					m.each(t, i, i+1, (*stack.Server).Kill) // stays down for the rows below
				default:
					m.observers[i].Set(t.Context(), m.name, value, time.Duration(row.lasts[i])*time.Second)
				}
			}
			r := m.redlock(t, redislock.RedlockOptions{NodeTimeout: 5 * time.Second})
			s, err := r.Inspect(t.Context(), m.key)
			if (err != nil) != (row.down != "") ||
				err != nil && (!errors.Is(err, lock.ErrDown) || !mentions(err, row.down)) {
				t.Errorf("err = %v, want %q", err, row.down)
			}
			switch {
			case (s.Holder != nil) != (row.holder != ""):
				t.Errorf("holder %+v, want %q", s.Holder, row.holder)
			case s.Holder == nil:
			case s.Holder.Who != row.holder:
				t.Errorf("holder %+v, want %s", s.Holder, row.holder)
			case s.Holder.Remaining > remaining || s.Holder.Remaining < remaining-9*time.Second:
				t.Errorf("holder %+v, want one for %v", s.Holder, remaining)
			}
			keys, err := r.Keys(t.Context())
			if (len(keys) == 1) != row.listed || row.listed && keys[0] != m.key {
				t.Errorf("keys %q, want %q: %t", keys, m.key, row.listed)
			}
			if (err != nil) != strings.Contains(row.down, "must") {
				t.Errorf("Keys: %v", err)
			}
		})
	}
}

// The log names the addresses of nodes. The text that is safe to show to clients numbers them.
func TestRedlockHidesAddresses(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{NodeTimeout: 5 * time.Second})
	m.observers[0].Set(t.Context(), "full", "x", 0)
	m.observers[0].ConfigSet(t.Context(), "maxmemory", "1")
	m.observers[1].LPush(t.Context(), m.name, "foreign")
	m.each(t, 2, 3, (*stack.Server).Kill)
	_, inspected := r.Inspect(t.Context(), m.key)
	if inspected != nil {
		t.Errorf("three of five answer: %v", inspected)
	}
	acquired := tryKey(t, r, m.key)
	m.each(t, 3, 4, (*stack.Server).Kill)
	_, inspected = r.Inspect(t.Context(), m.key)
	m.each(t, 4, 5, (*stack.Server).Kill)
	_, listed := r.Keys(t.Context())
	for what, row := range map[string]struct {
		err   error
		shown []string
	}{
		"Acquire": {acquired, []string{
			"quorum (good=2, all=5, must=3", "node 1 says OOM: it is out of memory",
			"node 2 says WRONGTYPE: it has no lock", "node 3 is not reached",
		}},
		"Inspect": {inspected, []string{"node 2 says WRONGTYPE", "node 4 is not reached"}},
		"Keys":    {listed, []string{"quorum (good=2, all=5", "node 5 is not reached"}},
		"CheckMasters": {
			redislock.CheckMasters(t.Context(), m.observers, 0),
			[]string{"node 3 is not reached", "node 4 is not reached", "node 5 is not reached"},
		},
	} {
		var down *lock.DownError
		if !errors.Is(row.err, lock.ErrDown) || !errors.As(row.err, &down) {
			t.Errorf("%s: %v, want ErrDown", what, row.err)
			continue
		}
		for _, text := range row.shown {
			if !strings.Contains(down.Error(), text) {
				t.Errorf("%s shows %q, want %q in it", what, down, text)
			}
		}
		if strings.Contains(down.Error(), "127.0.0.1") {
			t.Errorf("%s shows an address: %v", what, down)
		}
		if !strings.Contains(row.err.Error(), m.servers[2].Addr+" is not reached (connect: connection refused)") {
			t.Errorf("%s: the log does not learn the address: %v", what, row.err)
		}
	}
}

package redislock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
)

func try(t *testing.T, l lock.Locker) error {
	t.Helper()
	return tryKey(t, l, "k")
}

// tryKey tries once, and gives back what it gets.
func tryKey(t *testing.T, l lock.Locker, key string) error {
	t.Helper()
	lease, err := l.Acquire(t.Context(), key, lock.Options{TryOnce: true})
	if err == nil {
		_ = lease.Release()
	}
	return err
}

func TestRedlockNeedsAMajority(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{})
	for down := range 3 {
		lease := acquire(t, r, m.key)
		if got := m.with(t); got != 5-down {
			t.Errorf("with %d nodes down the key is on %d, want %d", down, got, 5-down)
		}
		if err := tryKey(t, m.redlock(t, redislock.RedlockOptions{}), m.key); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("with %d nodes down another got %v, want ErrHeld", down, err)
		}
		if err := lease.Release(); err != nil {
			t.Errorf("release with %d nodes down: %v", down, err)
		}
		m.each(t, 4-down, 5-down, (*stack.Server).Kill)
	}
	held := make(chan error, 1)
	go func() { // a waiter is told as well
		_, err := r.Acquire(t.Context(), m.key, lock.Options{})
		held <- err
	}()
	for _, err := range []error{<-held, tryKey(t, r, m.key)} {
		if !errors.Is(err, lock.ErrDown) || errors.Is(err, lock.ErrHeld) ||
			!mentions(err, "quorum (good=2, all=5, must=3") ||
			!mentions(err, m.servers[4].Addr) {
			t.Errorf("with 3 nodes down: %v, want ErrDown with the count and the addresses", err)
		}
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
	m.restart(t, 2, 5)
	eventually(t, "the lock is used again", func() bool { return tryKey(t, r, m.key) == nil })
}

// Two of five nodes that hang cost the node time-out, not the client's. With three there is no majority. A request
// that reached a hanging node is undone when the node goes on.
func TestRedlockNodesThatHang(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	m := fiveMasters(t)
	var counted atomic.Int64
	r := m.redlock(t, redislock.RedlockOptions{
		Lease: time.Minute, NodeTimeout: time.Second, Counted: func(_ string, n int) { counted.Store(int64(n)) },
	})
	_ = acquire(t, r, m.key).Release()
	m.each(t, 0, 2, (*stack.Server).Pause)
	for range 3 {
		eventually(t, "three nodes count", func() bool { // a busy computer may keep one from answering in time
			lease := acquire(t, r, m.key)
			defer lease.Release()
			return counted.Load() == 3
		})
	}
	m.each(t, 2, 3, (*stack.Server).Pause)
	if err := tryKey(t, r, m.key); !errors.Is(err, lock.ErrDown) || !mentions(err, "did not answer in time") {
		t.Errorf("with three that hang: %v, want ErrDown", err)
	}
	m.each(t, 0, 3, (*stack.Server).Resume)
	eventually(t, "nothing is left", func() bool { return m.with(t) == 0 })
	eventually(t, "all nodes count again", func() bool { return tryKey(t, r, m.key) == nil && counted.Load() == 5 })
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
}

// A node that hangs for longer does not delay every round, and is asked again when it is back.
func TestRedlockDoesWithoutASilentNode(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	m := fiveMasters(t)
	var counted atomic.Int64
	r := m.redlock(t, redislock.RedlockOptions{
		Lease:       5 * time.Second,
		NodeTimeout: 2 * time.Second,
		Counted:     func(_ string, n int) { counted.Store(int64(n)) },
	})
	_ = acquire(t, r, m.key).Release()
	m.each(t, 0, 1, (*stack.Server).Pause)
	eventually(t, "four nodes count, in a round that is quicker than the node time-out", func() bool {
		began := time.Now()
		return tryKey(t, r, m.key) == nil && counted.Load() == 4 && time.Since(began) < time.Second
	})
	// Longer than its orphans live: nothing but the probe can find out that it is back.
	time.Sleep(6 * time.Second) // the time that must pass is what is tested
	m.each(t, 0, 1, (*stack.Server).Resume)
	eventually(t, "all nodes count again", func() bool { return tryKey(t, r, m.key) == nil && counted.Load() == 5 })
}

// A caller that goes away in the middle of a try takes back what a minority has granted.
func TestRedlockCancelledMidWay(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Minute, NodeTimeout: time.Second})
	_ = acquire(t, r, m.key).Release()
	m.each(t, 2, 5, (*stack.Server).Pause)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller went away")
	got := make(chan error, 1)
	go func() {
		_, err := r.Acquire(ctx, m.key, lock.Options{})
		got <- err
	}()
	granted := func() int64 {
		return m.observers[0].Exists(t.Context(), m.name).Val() + m.observers[1].Exists(t.Context(), m.name).Val()
	}
	eventually(t, "a minority has granted", func() bool { return granted() == 2 })
	cancel(gone)
	if err := <-got; !errors.Is(err, gone) || errors.Is(err, lock.ErrDown) {
		t.Errorf("err = %v, want the cause", err)
	}
	if n := granted(); n != 0 {
		t.Errorf("the key was left on %d nodes", n)
	}
	m.each(t, 2, 5, (*stack.Server).Resume)
	eventually(t, "nothing is left", func() bool { return m.with(t) == 0 })
}

// All nodes grant, but so late that nothing of the lease is left.
func TestRedlockRefusesALateMajority(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: time.Second, NodeTimeout: 20 * time.Second})
	_ = tryKey(t, r, m.key) // connects
	for _, c := range m.observers {
		c.Do(t.Context(), "CLIENT", "PAUSE", "3000", "WRITE")
	}
	if err := tryKey(t, r, m.key); !errors.Is(err, lock.ErrDown) || !mentions(err, "lease-spent") {
		t.Errorf("err = %v, want a refusal", err)
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
}

// Replies of an earlier round do not count for a later one: each has a value of its own. Three of five nodes grant
// the first round, and the replies come when another has had a majority for long.
func TestRedlockLateVotesDoNotCount(t *testing.T) {
	t.Parallel()
	m := masterServers.take(t)
	var proxies []*wire.Proxy
	var clients []redis.UniversalClient
	for _, s := range m.servers {
		p, c := wired(t, s)
		proxies, clients = append(proxies, p), append(clients, c)
	}
	late, err := redislock.NewRedlock(clients, redislock.RedlockOptions{
		Quarantine: -1, Lease: time.Second, NodeTimeout: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	closer(t, late)
	// It connects, which may take longer than a round has. Another key, because a late reply to a release of this one
	// would spring the snares.
	for tryKey(t, late, "warm-up") != nil {
	}
	var held []*wire.Snare
	for _, p := range proxies[2:] {
		held = append(held, p.Set(wire.Trap{Match: wire.Contains(m.name), Do: wire.HoldReply}))
	}
	got := make(chan *lock.Lease, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	taken := make(chan struct{})
	go func() {
		for ctx.Err() == nil { // a round without a majority is ErrDown
			if lease, err := late.Acquire(ctx, m.key, lock.Options{}); err == nil {
				got <- lease
				return
			}
			<-taken // the next round would get the lock before the rival does
		}
	}()
	for _, s := range held {
		<-s.Sprung()
	}
	rival := acquireEventually(t, m.redlock(t, redislock.RedlockOptions{Lease: time.Minute}), m.key)
	close(taken)
	for _, s := range held {
		s.Release()
	}
	for range 5 { // rounds in vain, in each of which a majority of the nodes is asked
		before := proxies[4].Count(wire.ToServer)
		eventually(t, "the late one asks again", func() bool { return proxies[4].Count(wire.ToServer) > before })
	}
	select {
	case <-got:
		t.Error("two have the lock")
	default:
	}
	if err := rival.Release(); err != nil {
		t.Errorf("the rival's release: %v", err)
	}
	select {
	case lease := <-got:
		_ = lease.Release()
	case <-ctx.Done():
		t.Error("the late one was never served")
	}
}

// nodeCounts records on how many nodes a lease stood.
type nodeCounts struct {
	mu   sync.Mutex
	list []int
}

func (s *nodeCounts) counted(_ string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, n)
}

func (s *nodeCounts) last() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[len(s.list)-1]
}

func (s *nodeCounts) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = []int{0}
}

func TestRedlockMaximumHold(t *testing.T) {
	t.Parallel()
	m := masterServers.take(t)
	r := m.redlock(t, redislock.RedlockOptions{MaxHold: time.Second}) // and the lease is longer
	var expired *lock.ExpiredError
	if err := awaitLoss(t, acquire(t, r, m.key)); !errors.As(err, &expired) || !expired.Maximum {
		t.Errorf("err = %v, want the maximum", err)
	}
}

// A renewal repairs keys that are gone, or another's, on a minority of the nodes. On a majority they are a loss.
func TestRedlockErosion(t *testing.T) {
	t.Parallel()
	del := func(c redis.UniversalClient, name string) { c.Del(t.Context(), name) }
	rob := func(c redis.UniversalClient, name string) { c.Set(t.Context(), name, "other", 0) }
	for name, row := range map[string]struct {
		harm  func(c redis.UniversalClient, name string)
		nodes int
		loss  error
		left  int // on how many nodes the lease stands after the next renewal
	}{
		"two keys gone":    {del, 2, nil, 5},
		"two keys taken":   {rob, 2, nil, 3},
		"three keys gone":  {del, 3, lock.ErrExpired, 0},
		"three keys taken": {rob, 3, lock.ErrTaken, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := masterServers.take(t)
			var n nodeCounts
			const term = 6 * time.Second
			lease := acquire(t, m.redlock(t, redislock.RedlockOptions{Lease: term, Counted: n.counted}), m.key)
			n.forget()
			for _, c := range m.observers[:row.nodes] {
				row.harm(c, m.name)
			}
			if row.loss == nil {
				eventually(t, "it was renewed", func() bool { return n.last() > 0 })
				if n.last() != row.left || lease.Err() != nil {
					t.Errorf("on %d nodes, and %v; want %d", n.last(), lease.Err(), row.left)
				}
				var longest time.Duration
				for _, c := range m.observers {
					longest = max(longest, c.PTTL(t.Context(), m.name).Val())
				}
				if longest > term {
					t.Errorf("PTTL = %v, more than a lease", longest)
				}
				if err := lease.Release(); err != nil {
					t.Errorf("release: %v", err)
				}
			} else {
				if err := awaitLoss(t, lease); !errors.Is(err, row.loss) ||
					!mentions(err, "2 of 5 nodes still have our key") {
					t.Errorf("loss: %v, want %v", err, row.loss)
				}
				if n.last() != 0 {
					t.Errorf("a renewal on %d nodes was counted", n.last())
				}
				if err := lease.Release(); !errors.Is(err, lock.ErrLost) {
					t.Errorf("release: %v", err)
				}
			}
			for i, c := range m.observers {
				if value := c.Get(t.Context(), m.name).Val(); value != "" && value != "other" {
					t.Errorf("left on node %d: %q", i+1, value)
				}
			}
		})
	}
}

// A lease that began on three nodes grows when the others come back, and then survives the end of two of the first
// three.
func TestRedlockTopsUp(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	var n nodeCounts
	m.each(t, 3, 5, (*stack.Server).Kill)
	lease := acquire(t, m.redlock(t, redislock.RedlockOptions{Lease: 9 * time.Second, Counted: n.counted}), m.key)
	if n.last() != 3 {
		t.Fatalf("on %d nodes, want 3", n.last())
	}
	m.restart(t, 3, 5)
	eventually(t, "it stands on five nodes", func() bool { return n.last() == 5 })
	m.each(t, 0, 2, (*stack.Server).Kill)
	eventually(t, "it stands on three nodes", func() bool { return n.last() == 3 })
	if lease.Err() != nil {
		t.Error(lease.Err())
	}
	m.restart(t, 0, 2)
	if err := tryKey(t, m.redlock(t, redislock.RedlockOptions{}), m.key); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("another got %v, want ErrHeld", err)
	}
}

// A node that comes back empty does not count until all that it forgot has run out: two such nodes and one more are
// no majority beside the holder's other three.
func TestRedlockQuarantine(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	t.Parallel()
	m := fiveMasters(t)
	var n nodeCounts
	o := redislock.RedlockOptions{Lease: 6 * time.Second, Quarantine: 6 * time.Second, Counted: n.counted}
	r := m.redlock(t, o)
	err := tryKey(t, r, m.key)
	if !errors.Is(err, lock.ErrDown) || !mentions(err, "was started less than 6s ago") {
		t.Fatalf("on servers that have just been started: %v, want ErrDown", err)
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
	var lease *lock.Lease
	eventually(t, "the nodes count", func() bool {
		lease, err = r.Acquire(t.Context(), m.key, lock.Options{TryOnce: true})
		return err == nil
	})
	defer func() { _ = lease.Release() }()
	eventually(t, "all nodes count", func() bool { return n.last() == 5 })

	began := time.Now()
	m.restart(t, 0, 2)
	n.forget()
	empty := func(i int) bool { return m.observers[i].Exists(t.Context(), m.name).Val() == 0 }
	eventually(t, "the empty nodes are topped up", func() bool { return !empty(0) && !empty(1) })
	eventually(t, "it was renewed", func() bool { return n.last() > 0 })
	if got := n.last(); got != 3 && time.Since(began) < o.Quarantine {
		t.Errorf("%d nodes count, want 3: two were restarted", got)
	}
	eventually(t, "the restarted nodes count again", func() bool { return n.last() == 5 })
	if took := time.Since(began); took < o.Quarantine {
		t.Errorf("they counted again after %v", took)
	}
	if lease.Err() != nil {
		t.Error(lease.Err())
	}
}

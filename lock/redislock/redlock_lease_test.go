package redislock_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"example.com/stock/lock"
	"example.com/stock/lock/redislock"
	"example.com/stock/stack"
)

// sizes records on how many nodes a lease stood.
type sizes struct {
	mu   sync.Mutex
	list []int
}

func (s *sizes) counted(_ string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, n)
}

func (s *sizes) last() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[len(s.list)-1]
}

func (s *sizes) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = []int{0}
}

func TestRedlockRenewal(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	const lease = 3 * time.Second
	var n sizes
	held, err := m.redlock(t, redislock.RedlockOptions{Lease: lease, Counted: n.counted}).Acquire(t.Context(), "k", lock.Options{Owner: "app-1/request-7"})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-held.Done():
		t.Errorf("lost: %v", held.Err())
	case <-time.After(3 * lease):
	}
	err = busy(t, m.redlock(t, redislock.RedlockOptions{}))
	var who *lock.HeldError
	if !errors.As(err, &who) || who.Holder != "app-1/request-7" || who.Remaining <= 0 || who.Remaining > lease {
		t.Errorf("err = %+v, want the holder and what remains", err)
	}
	if held.Fence() != lock.NoFence || n.last() != 5 {
		t.Errorf("fence %d on %d nodes, want none and 5", held.Fence(), n.last())
	}
	if err := held.Release(); err != nil || m.with(t) != 0 {
		t.Errorf("release: %v, and %d keys are left", err, m.with(t))
	}
}

func TestRedlockMaximumHold(t *testing.T) {
	m := fiveMasters(t)
	r := m.redlock(t, redislock.RedlockOptions{Lease: 2 * time.Second, MaxHold: 3 * time.Second})
	if err := awaitLoss(t, acquire(t, r, "k")); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("err = %v, want ErrExpired", err)
	}
}

// What a renewal makes of keys that are gone or somebody else's, by the number of nodes: a minority is set right, a majority is a loss.
func TestRedlockErosion(t *testing.T) {
	del := func(c redis.UniversalClient) { c.Del(t.Context(), "redlock:{k}") }
	rob := func(c redis.UniversalClient) { c.Set(t.Context(), "redlock:{k}", "other", 0) }
	for name, row := range map[string]struct {
		harm  func(redis.UniversalClient)
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
			m := fiveMasters(t)
			var n sizes
			const term = 6 * time.Second
			lease := acquire(t, m.redlock(t, redislock.RedlockOptions{Lease: term, Counted: n.counted}), "k")
			n.forget()
			for _, c := range m.eyes[:row.nodes] {
				row.harm(c)
			}
			if row.loss == nil {
				eventually(t, "it was renewed", func() bool { return n.last() > 0 })
				if n.last() != row.left || lease.Err() != nil {
					t.Errorf("on %d nodes, and %v; want %d", n.last(), lease.Err(), row.left)
				}
				var longest time.Duration
				for _, c := range m.eyes {
					longest = max(longest, c.PTTL(t.Context(), "redlock:{k}").Val())
				}
				if longest > term {
					t.Errorf("PTTL = %v, more than a lease", longest)
				}
				if err := lease.Release(); err != nil {
					t.Errorf("release: %v", err)
				}
			} else {
				if err := awaitLoss(t, lease); !errors.Is(err, row.loss) || !mentions(err, "2 of 5 nodes still have our key") {
					t.Errorf("loss: %v, want %v", err, row.loss)
				}
				if n.last() != 0 {
					t.Errorf("a renewal on %d nodes was counted", n.last())
				}
				if err := lease.Release(); !errors.Is(err, lock.ErrLost) {
					t.Errorf("release: %v", err)
				}
			}
			for i, c := range m.eyes {
				if value := c.Get(t.Context(), "redlock:{k}").Val(); value != "" && value != "other" {
					t.Errorf("left on node %d: %q", i+1, value)
				}
			}
		})
	}
}

// A lease that began on three nodes grows when the others come back, and then survives the end of two of the first three.
func TestRedlockTopsUp(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	var n sizes
	m.each(t, 3, 5, (*stack.Server).Kill)
	lease := acquire(t, m.redlock(t, redislock.RedlockOptions{Lease: 3 * time.Second, Counted: n.counted}), "k")
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
	if err := busy(t, m.redlock(t, redislock.RedlockOptions{})); !errors.Is(err, lock.ErrHeld) {
		t.Errorf("another got %v, want ErrHeld", err)
	}
}

// A node that comes back empty does not count until whatever it forgot has run out: two such nodes and one more are no majority
// beside the holder's other three.
func TestRedlockQuarantine(t *testing.T) {
	t.Parallel()
	m := fiveMasters(t)
	var n sizes
	o := redislock.RedlockOptions{Lease: 6 * time.Second, Quarantine: 6 * time.Second, Counted: n.counted}
	r := m.redlock(t, o)
	err := busy(t, r)
	if !errors.Is(err, lock.ErrDown) || !mentions(err, "was started less than 6s ago") {
		t.Fatalf("on servers that have just been started: %v, want ErrDown", err)
	}
	if got := m.with(t); got != 0 {
		t.Errorf("the key was left on %d nodes", got)
	}
	var lease *lock.Lease
	eventually(t, "the nodes count", func() bool {
		lease, err = r.Acquire(t.Context(), "k", lock.Options{TryOnce: true})
		return err == nil
	})
	defer func() { _ = lease.Release() }()
	eventually(t, "all nodes count", func() bool { return n.last() == 5 })

	began := time.Now()
	m.restart(t, 0, 2)
	n.forget()
	empty := func(i int) bool { return m.eyes[i].Exists(t.Context(), "redlock:{k}").Val() == 0 }
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

package zklock

import (
	"errors"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A broken connection is no loss: the session is the same on the next, for the holder and for the waiter.
func TestLeaseOutlivesItsConnection(t *testing.T) {
	host := servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := dial(t, p.addr())
	q := NewSequential(s)
	lease := acquire(t, q, 20*time.Second)
	turn := acquireLater(t, q)
	eventually(t, "one waits", func() bool { requests, _, _ := p.counts(); return requests >= 6 })
	for range 3 {
		before := s.linkNow()
		p.cut()
		eventually(t, "connected again", func() bool { return s.State() == Connected && s.linkNow() != before })
	}
	if err := lease.Err(); err != nil {
		t.Errorf("lease: %v", err)
	}
	release(t, lease)
	release(t, <-turn)
}

// The link goes silent while work is going on. The holder is told before the server lets the next one in.
func TestLossIsToldBeforeTheServerExpiresTheSession(t *testing.T) {
	host := servers.ZooKeeper(t)
	next := NewSequential(dial(t, host))
	for _, timeout := range []time.Duration{2 * time.Second, 4 * time.Second} {
		p := newProxy(t, host)
		s := open(t, Config{Hosts: []string{p.addr()}, SessionTimeout: timeout})
		q := NewSequential(s)
		lease := acquire(t, q, 20*time.Second)
		turn := acquireLater(t, next)
		p.setSilent(true)
		from := time.Now()
		select {
		case <-lease.Done():
		case <-turn:
			t.Fatalf("timeout %v: the next one has the lock after %v, the holder was not told", timeout, time.Since(from))
		}
		told := time.Since(from)
		if err := lease.Err(); !errors.Is(err, lock.ErrLost) || !errors.Is(err, lock.ErrExpired) {
			t.Errorf("lease: %v", err)
		}
		successor := <-turn
		t.Logf("timeout %v: told after %v, taken after %v", timeout, told, time.Since(from))
		if successor.Fence() <= lease.Fence() {
			t.Errorf("fence %d after %d", successor.Fence(), lease.Fence())
		}
		release(t, successor)
		p.setSilent(false)
		eventually(t, "connected again", func() bool { return s.State() == Connected })
		release(t, acquire(t, q, 20*time.Second))
		if err := lease.Release(); !errors.Is(err, lock.ErrLost) {
			t.Errorf("release of a lost lease: %v", err)
		}
	}
}

// The session ends at the server while the connection is up: holders are told, waiters queue up again in the next session.
func TestSessionClosedByTheServer(t *testing.T) {
	host := servers.ZooKeeper(t)
	p := newProxy(t, host)
	q, other := NewSequential(dial(t, p.addr())), NewSequential(dial(t, host))
	holder := acquire(t, other, 20*time.Second)
	turn := acquireLater(t, q)
	c := raw(t, host)
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	before := queue(t, c)
	p.closeSession(t)
	eventually(t, "it waits with another node", func() bool {
		now := queue(t, c)
		return len(now) == 2 && (now[0] != before[0] || now[1] != before[1]) && (now[0] != before[1] || now[1] != before[0])
	})
	release(t, holder)
	lease := <-turn
	p.closeSession(t)
	select {
	case <-lease.Done():
	case <-time.After(soon):
		t.Fatal("the lease outlives its session")
	}
	if err := lease.Err(); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("lease: %v", err)
	}
	release(t, acquire(t, q, 20*time.Second))
}

// A server that takes the connection and does not answer the greeting is given up after 3 s.
func TestServerThatDoesNotGreet(t *testing.T) {
	p := newProxy(t, servers.ZooKeeper(t))
	p.mu.Lock()
	p.ignore = 1
	p.mu.Unlock()
	s, err := Dial(Config{Hosts: []string{p.addr()}})
	must(t, err)
	defer s.Close()
	eventually(t, "connected", func() bool { return s.State() == Connected })
}

// A server that goes silent is left for another in time to save the session.
func TestSilentServerIsLeft(t *testing.T) {
	host := servers.ZooKeeper(t)
	proxies := map[string]*proxy{}
	var hosts []string
	for range 2 {
		p := newProxy(t, host)
		proxies[p.addr()], hosts = p, append(hosts, p.addr())
	}
	s := open(t, Config{Hosts: hosts, SessionTimeout: 6 * time.Second})
	q := NewSequential(s)
	lease := acquire(t, q, 20*time.Second)
	used := s.linkNow().RemoteAddr().String()
	proxies[used].setSilent(true)
	eventually(t, "connected elsewhere", func() bool {
		return s.State() == Connected && s.linkNow().RemoteAddr().String() != used
	})
	if err := lease.Err(); err != nil {
		t.Errorf("lease: %v", err)
	}
	release(t, lease)
}

// With the session timeout that is the default, too, a waiter has its answer within 3 s, long before the session is given up.
func TestWaiterIsToldSoonInALongSession(t *testing.T) {
	host := servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := open(t, Config{Hosts: []string{p.addr()}})
	q, c := NewSequential(s), raw(t, host)
	lease := acquire(t, q, 20*time.Second)
	waited := make(chan error, 1)
	go func() { _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{}); waited <- err }()
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	p.setSilent(true)
	select {
	case err := <-waited:
		if !errors.Is(err, lock.ErrDown) {
			t.Errorf("waiter: %v", err)
		}
	case <-lease.Done():
		t.Error("the session was lost before a waiter was told; it should be told after 2.5 s, and that is after 6.7 s")
	}
	p.setSilent(false)
	eventually(t, "the waiter's node is gone", func() bool { return len(queue(t, c)) == 1 })
	release(t, lease)
}

// Close takes the leases with it, and the nodes.
func TestClose(t *testing.T) {
	host := servers.ZooKeeper(t)
	s := dial(t, host)
	c := raw(t, host)
	q := NewSequential(s)
	lease := acquire(t, q, 20*time.Second)
	waited := make(chan error, 1)
	go func() { _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{}); waited <- err }()
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	s.Close()
	s.Close()
	if err := lease.Err(); !errors.Is(err, lock.ErrLost) {
		t.Errorf("lease: %v", err)
	}
	if err := <-waited; !errors.Is(err, lock.ErrDown) {
		t.Errorf("waiter: %v", err)
	}
	if left := queue(t, c); len(left) != 0 {
		t.Errorf("nodes left: %v", left)
	}
	if _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{}); !errors.Is(err, lock.ErrDown) {
		t.Errorf("acquire after close: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

package zklock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// starts is a Sequential that must not be asked in a goroutine of lock.HandOver, which calls Acquire there.
type starts struct {
	*Sequential
	t *testing.T
}

func (s starts) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	s.t.Error("lock.HandOver asked anew")
	return s.Sequential.Acquire(ctx, key, o)
}

// A free key is acquired through lock.HandOver in the caller's own goroutine: Start has the lease, for one request.
func TestStartAcquiresAFreeKey(t *testing.T) {
	t.Parallel()
	p := newProxy(t, Servers.ZooKeeper(t))
	q := NewSequential(dial(t, p.Addr()))
	l := lock.HandOver(starts{q, t}, lock.Bound{})
	release(t, acquire(t, q)) // makes the folder, and reads the record of fences
	before := p.requests()
	lease := acquire(t, l)
	if n := p.requests() - before; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	release(t, lease)
	if n := p.requests() - before; n != 2 {
		t.Errorf("%d requests with the release, want 2", n)
	}
}

// Start does not wait for the holder of a key. It takes a place in the queue, for one request, and wait keeps that.
func TestStartTakesAPlace(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	q, other, c := NewSequential(dial(t, p.Addr())), NewSequential(dial(t, host)), raw(t, host)
	release(t, acquire(t, q))
	holder := acquire(t, other)
	before := p.requests()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, wait, err := q.Start(ctx, keyOf(t), lock.Options{})
	if err != nil || lease != nil || wait == nil {
		t.Fatalf("lease %v, %v; want a wait alone", lease, err)
	}
	if n := p.requests() - before; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	second := parseQueue(queue(t, c))[1]
	last := acquireLater(t, other)
	eventually(t, "three in the queue", func() bool { return len(queue(t, c)) == 3 })
	release(t, holder)
	lease, err = wait(ctx)
	must(t, err)
	if left := parseQueue(queue(t, c)); left[0] != second {
		t.Errorf("the holder is %v, want %v, which came second", left[0], second)
	}
	release(t, lease)
	release(t, <-last)
}

// A place that was taken is given up with the ctx of the wait.
func TestAWaitAfterStartLeavesNoNode(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	holder := acquire(t, q)
	_, wait, err := q.Start(t.Context(), keyOf(t), lock.Options{})
	must(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if lease, err := wait(over); lease != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("lease %v, %v, want context.Canceled", lease, err)
	}
	if left := queue(t, c); len(left) != 1 {
		t.Errorf("queue is %v, want the holder alone", left)
	}
	release(t, holder)
}

// If the session is lost between Start and wait, wait queues up in the next session, and the old node is deleted long
// before the server would end the old session.
func TestStartOfALostSession(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := open(t, Config{Hosts: []string{host}, SessionTimeout: 40 * time.Second})
	q, other, c := NewSequential(s), NewSequential(dial(t, host)), raw(t, host)
	release(t, acquire(t, q))
	holder := acquire(t, other)
	_, wait, err := q.Start(t.Context(), keyOf(t), lock.Options{})
	must(t, err)
	old := parseQueue(queue(t, c))[1]
	g, _ := s.now()
	g.lose(lock.ErrExpired)
	eventually(t, "the generation is retired", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return g.closed
	})
	got := make(chan *lock.Lease, 1)
	go func() {
		lease, err := wait(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	eventually(t, "a new place alone", func() bool {
		nodes := parseQueue(queue(t, c))
		return len(nodes) == 2 && !slices.Contains(nodes, old)
	})
	release(t, holder)
	if lease := <-got; lease != nil {
		release(t, lease)
	}
}

// A place that comes when Start was given up is given back, while the session lives on.
func TestAPlaceThatComesTooLate(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := open(t, Config{Hosts: []string{p.Addr()}, SessionTimeout: 20 * time.Second})
	q, other, c := NewSequential(s), NewSequential(dial(t, host)), raw(t, host)
	release(t, acquire(t, q))
	holder := acquire(t, other)
	create := p.Set(wire.Trap{On: wire.ToServer, Do: wire.HoldReply})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-create.Sprung(); cancel() }()
	lease, wait, err := q.Start(ctx, keyOf(t), lock.Options{})
	if lease != nil || wait != nil || !errors.Is(err, context.Canceled) {
		t.Fatalf("lease %v, wait %v, %v; want context.Canceled", lease, wait != nil, err)
	}
	if left := queue(t, c); len(left) != 2 {
		t.Fatalf("queue is %v; without a second node this shows nothing", left)
	}
	create.Release()
	eventually(t, "the holder alone", func() bool { return len(queue(t, c)) == 1 })
	release(t, holder)
}

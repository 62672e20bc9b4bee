package zklock

import (
	"context"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
)

// What a request costs, as the docs claim.
func TestRoundTrips(t *testing.T) {
	host := servers.ZooKeeper(t)
	p := newProxy(t, host)
	q, other := NewSequential(dial(t, p.addr())), NewSequential(dial(t, host))
	release(t, acquire(t, q, 20*time.Second)) // makes the folder
	spent := func(work func()) int {
		before, _, _ := p.counts()
		work()
		after, _, _ := p.counts()
		return after - before
	}
	var lease *lock.Lease
	if n := spent(func() { lease = acquire(t, q, 20*time.Second) }); n != 1 {
		t.Errorf("acquire: %d requests, want 1", n)
	}
	if n := spent(func() { release(t, lease) }); n != 1 {
		t.Errorf("release: %d requests, want 1", n)
	}
	lease = acquire(t, other, 20*time.Second)
	try := func() { q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true}) }
	if n := spent(try); n != 2 {
		t.Errorf("failed try: %d requests, want 2", n)
	}
	turn := acquireLater(t, q)
	if n := spent(func() {
		eventually(t, "one waits", func() bool {
			return q.session.current.watching.count() == 1
		})
	}); n > 3 {
		t.Errorf("queue up: %d requests, want 3", n)
	}
	if n := spent(func() { release(t, lease); lease = <-turn }); n != 0 {
		t.Errorf("hand-over to the second: %d requests, want 0", n)
	}
	release(t, lease)
}

// One release wakes one waiter: 20 contenders cause 19 events, where a lock that everyone watches causes 190.
func TestNoHerd(t *testing.T) {
	host := servers.ZooKeeper(t)
	p := newProxy(t, host)
	q := NewSequential(dial(t, p.addr()))
	c := raw(t, host)
	const n = 20
	lease := acquire(t, q, 20*time.Second)
	var waiting sync.WaitGroup
	for range n - 1 {
		waiting.Go(func() { release(t, acquire(t, q, 20*time.Second)) })
	}
	eventually(t, "all wait", func() bool { return mntr(t, host, "zk_watch_count") == n-1 && len(queue(t, c)) == n })
	release(t, lease)
	waiting.Wait()
	if _, events, _ := p.counts(); events != n-1 {
		t.Errorf("%d events for %d releases", events, n-1)
	}
	if left := mntr(t, host, "zk_watch_count"); left != 0 {
		t.Errorf("%d watches left", left)
	}
}

// Waits that time out behind one long hold do not pile up watches, neither at the server nor here.
func TestShortWaitsShareAWatch(t *testing.T) {
	host := servers.ZooKeeper(t)
	p := newProxy(t, host)
	q := NewSequential(dial(t, p.addr()))
	lease := acquire(t, NewSequential(dial(t, host)), 20*time.Second) // past the proxy, which would count the watch that it keeps on itself
	// Makes the other lock's folder, and reads the record of fences.
	release(t, acquire(t, NewEphemeral(q.session), 20*time.Second))
	before, _, _ := p.counts()
	const waits = 20
	for range waits {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := q.Acquire(ctx, keyOf(t), lock.Options{}); err == nil {
			t.Error("got a held key")
		}
		cancel()
	}
	if after, _, _ := p.counts(); after-before > 3*waits+1 { // create, list and delete, and one watch
		t.Errorf("%d requests for %d waits", after-before, waits)
	}
	release(t, lease)
	eventually(t, "no watch left", func() bool { return q.session.current.watching.count() == 0 })
}

func TestThousandsLeaveNothing(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range 300 {
				release(t, acquire(t, q, 20*time.Second))
			}
		})
	}
	work.Wait()
	if left := queue(t, c); len(left) != 0 {
		t.Errorf("nodes left: %v", left)
	}
	if left := q.session.debris.list(); len(left) != 0 {
		t.Errorf("debris left: %v", left)
	}
	if n := mntr(t, host, "zk_watch_count"); n != 0 {
		t.Errorf("%d watches left", n)
	}
}

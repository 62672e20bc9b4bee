package zklock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
)

// What a request costs, as the docs claim.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	q, other := NewSequential(dial(t, p.Addr())), NewSequential(dial(t, host))
	release(t, acquire(t, q)) // makes the folder
	spent := func(work func()) int {
		before := p.requests()
		work()
		return p.requests() - before
	}
	var lease *lock.Lease
	if n := spent(func() { lease = acquire(t, q) }); n != 1 {
		t.Errorf("acquire: %d requests, want 1", n)
	}
	if n := spent(func() { release(t, lease) }); n != 1 {
		t.Errorf("release: %d requests, want 1", n)
	}
	lease = acquire(t, other)
	try := func() { q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true}) }
	if n := spent(try); n != 2 {
		t.Errorf("failed try: %d requests, want 2", n)
	}
	next := acquireLater(t, q)
	waits := func() { eventually(t, "one waits", func() bool { return q.session.watchCount() == 1 }) }
	if n := spent(waits); n > 3 {
		t.Errorf("queue up: %d requests, want 3", n)
	}
	if n := spent(func() { release(t, lease); lease = <-next }); n != 0 {
		t.Errorf("hand-over to the second: %d requests, want 0", n)
	}
	release(t, lease)
}

// One release wakes one waiter: 20 contenders cause 19 events, where a lock that everyone watches causes 190.
func TestNoHerd(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	q := NewSequential(dial(t, p.Addr()))
	c := raw(t, host)
	const n = 20
	lease := acquire(t, q)
	var waiting sync.WaitGroup
	for range n - 1 {
		waiting.Go(func() { release(t, acquire(t, q)) })
	}
	watched := func() (sum int) {
		for _, nodes := range watchersAt(t, host, folderOf(t)) {
			sum += nodes
		}
		return sum
	}
	eventually(t, "all wait", func() bool { return watched() == n-1 && len(queue(t, c)) == n })
	release(t, lease)
	waiting.Wait()
	if events := p.events.Load(); events != n-1 {
		t.Errorf("%d events for %d releases", events, n-1)
	}
	if left := watched(); left != 0 {
		t.Errorf("%d watches left", left)
	}
}

// Waits that time out behind one long hold do not pile up watches, neither at the server nor here.
func TestShortWaitsShareAWatch(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	q := NewSequential(dial(t, p.Addr()))
	// Past the proxy, which would count the watch that the holder sets on its own node.
	lease := acquire(t, NewSequential(dial(t, host)))
	// Makes the other lock's folder, and reads the record of fences.
	release(t, acquire(t, NewEphemeral(q.session)))
	before := p.requests()
	const waits = 20
	for range waits {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := q.Acquire(ctx, keyOf(t), lock.Options{}); err == nil {
			t.Error("got a held key")
		}
		cancel()
	}
	if after := p.requests(); after-before > 3*waits+1 { // create, list and delete, and one watch
		t.Errorf("%d requests for %d waits", after-before, waits)
	}
	release(t, lease)
	eventually(t, "no watch left", func() bool { return q.session.watchCount() == 0 })
}

func TestThousandsLeaveNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			for range stacktest.Rounds(300, 40) {
				release(t, acquire(t, q))
			}
		})
	}
	work.Wait()
	if left := queue(t, c); len(left) != 0 {
		t.Errorf("nodes left: %v", left)
	}
	if left := q.session.orphans.list(); len(left) != 0 {
		t.Errorf("orphans left: %v", left)
	}
	if left := watchersAt(t, host, folderOf(t)); len(left) != 0 {
		t.Errorf("watches left: %v", left)
	}
}

// 100 contenders, each a process of its own to the server, and every release comes when all that are left wait again.
// The herd is 99+98+...+1 wake-ups; the queue needs 99.
func TestTheHerdIsCounted(t *testing.T) {
	host := Servers.ZooKeeper(t)
	n := stacktest.Rounds(100, 20)
	sessions := make([]*Session, n)
	for i := range sessions {
		sessions[i] = open(t, Config{Hosts: []string{host}, SessionTimeout: 30 * time.Second})
	}
	for _, row := range []struct {
		kind kind
		wake func(waiters int) int // how many of them a release wakes
		want int
	}{
		{sequentialKind(), func(waiters int) int { return min(1, waiters) }, n - 1},
		{ephemeralKind(), func(waiters int) int { return waiters }, n * (n - 1) / 2},
	} {
		t.Run(row.kind.name, func(t *testing.T) {
			var wakeups atomic.Int64
			var all sync.WaitGroup
			defer all.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			counted := lock.Options{OnWake: func() { wakeups.Add(1) }}
			leases := make(chan *lock.Lease)
			waiting := func() (sum int) {
				for _, s := range sessions {
					sum += s.watchCount()
				}
				return sum
			}
			for _, s := range sessions {
				all.Go(func() {
					lease, err := row.kind.open(s).Acquire(ctx, keyOf(t), counted)
					if err != nil {
						t.Error(err)
						return
					}
					select {
					case leases <- lease:
					case <-ctx.Done():
					}
				})
			}
			woken := 0
			for left := n - 1; left >= 0; left-- {
				var lease *lock.Lease
				select {
				case lease = <-leases:
				case <-time.After(time.Minute):
					t.Fatalf("nobody got the key, %d are left", left)
				}
				eventually(t, fmt.Sprintf("all %d wait", left), func() bool {
					return wakeups.Load() >= int64(woken) && waiting() == left
				})
				release(t, lease)
				woken += row.wake(left)
			}
			if got := wakeups.Load(); got != int64(row.want) {
				t.Errorf("%d wake-ups for %d contenders, want %d", got, n, row.want)
			}
		})
	}
}

// The promise that Sequential's waiters and Ephemeral's are woken from their server, and not by the clock: a wait
// that ends by itself is no wake-up.
func TestAWaitThatEndsIsNoWakeUp(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for _, k := range kinds() {
		holder := acquire(t, k.open(dial(t, host)))
		var wakeups atomic.Int64
		counted := lock.Options{OnWake: func() { wakeups.Add(1) }}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := k.open(dial(t, host)).Acquire(ctx, keyOf(t), counted); err == nil || wakeups.Load() != 0 {
			t.Errorf("%s: %v, %d wake-ups", k.name, err, wakeups.Load())
		}
		release(t, holder)
	}
}

// The first acquisition of a session costs two reads more; the mark is moved by one write for many transactions.
func TestTheRecordIsReadOnceInASession(t *testing.T) {
	host := Servers.ZooKeeper(t)
	release(t, acquire(t, NewSequential(dial(t, host)))) // makes the folder
	c, p := raw(t, host), newProxy(t, host)
	q := NewSequential(dial(t, p.Addr()))
	release(t, acquire(t, q))
	if n := p.requests(); n != 4 {
		t.Errorf("%d requests for the first acquisition and its release, want 4", n)
	}
	before := recordBelow(t, c, rootOf(t)).version
	rounds := stacktest.Rounds(200, 50)
	for range rounds {
		release(t, acquire(t, q))
	}
	if n := p.requests(); n > 4+2*rounds+6 {
		t.Errorf("%d requests for %d acquisitions and their releases", n, rounds+1)
	}
	if after := recordBelow(t, c, rootOf(t)).version; after > before+1 {
		t.Errorf("the record was written %d times", after-before)
	}
}

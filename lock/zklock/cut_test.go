package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"example.com/stock/lock"
)

// The reply to any one request, or the request itself, does not arrive, because the connection breaks. Whatever Acquire and Release
// then say: nothing is left behind, and the next one gets the key.
func TestCutAtEveryRequest(t *testing.T) {
	host := servers.ZooKeeper(t)
	c := raw(t, host)
	uncontended := func(q *Sequential, _ *lock.Lease) (*lock.Lease, error) { return q.Acquire(t.Context(), keyOf(t)) }
	try := func(q *Sequential, _ *lock.Lease) (*lock.Lease, error) {
		return q.Acquire(lock.NoWait(t.Context()), keyOf(t))
	}
	contended := func(q *Sequential, holder *lock.Lease) (*lock.Lease, error) {
		go func() {
			// Not before the waiter has had its chance to be cut at the watch. An early release only makes the case another one.
			<-time.After(100 * time.Millisecond)
			holder.Release()
		}()
		return q.Acquire(t.Context(), keyOf(t))
	}
	timedOut := func(q *Sequential, _ *lock.Lease) (*lock.Lease, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return q.Acquire(ctx, keyOf(t))
	}
	for _, row := range []struct {
		name     string
		acquire  func(*Sequential, *lock.Lease) (*lock.Lease, error)
		held     bool // by another
		requests int  // that a run without a cut makes, with the making of the folder
	}{
		{"uncontended", uncontended, false, 4},
		{"try", try, false, 5},
		{"try of a held key", try, true, 2},
		{"contended", contended, true, 4},
		{"timed out", timedOut, true, 4},
	} {
		for _, forward := range []bool{false, true} {
			for n := 1; n <= row.requests; n++ {
				what := fmt.Sprintf("%s, cut at request %d, seen by the server: %v", row.name, n, forward)
				p := newProxy(t, host)
				s := dial(t, p.addr())
				q, other := NewSequential(s), NewSequential(dial(t, host))
				eventually(t, "connected", func() bool { return s.State() == Connected })
				var holder *lock.Lease
				if row.held {
					holder = acquire(t, other, 5*time.Second)
				}
				p.cutAtNext(n, forward)
				lease, err := row.acquire(q, holder)
				if err == nil {
					if err := lease.Release(); err != nil && !errors.Is(err, lock.ErrDown) {
						t.Errorf("%s: release: %v", what, err)
					}
				} else if !row.held && !errors.Is(err, lock.ErrDown) {
					t.Errorf("%s: %v", what, err)
				}
				if holder != nil {
					holder.Release()
				}
				if _, _, cuts := p.counts(); cuts != 1 {
					t.Errorf("%s: was not cut", what)
				}
				eventually(t, what+": nothing left behind", func() bool { return len(queue(t, c)) == 0 })
				release(t, acquire(t, q, 5*time.Second))
				c.Delete(folderOf(t), -1) // the next case makes it again
				s.Close()
				other.session.Close()
			}
		}
	}
}

// The reply to the create is lost and the link stays silent: Acquire cannot know whether there is a node, and says that the server is
// down. The node goes as soon as the link is back, and not with the session only, which lives on.
func TestOrphanIsSweptWithinTheSession(t *testing.T) {
	host := servers.ZooKeeper(t)
	c := raw(t, host)
	for _, broken := range []bool{false, true} { // the connection hangs, or breaks and the next one hangs
		p := newProxy(t, host)
		s, err := Dial(Config{Hosts: []string{p.addr()}, SessionTimeout: 20 * time.Second})
		must(t, err)
		defer s.Close()
		q := NewSequential(s)
		release(t, acquire(t, q, 5*time.Second)) // makes the folder
		session := s.current
		p.mute = true
		p.cutAtNext(1, true)
		failed := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() { _, err := q.Acquire(ctx, keyOf(t)); failed <- err }()
		eventually(t, "an orphan", func() bool { return len(queue(t, c)) == 1 })
		if broken {
			p.cut()
		}
		if err := <-failed; !errors.Is(err, lock.ErrDown) {
			t.Errorf("acquire: %v", err)
		}
		if left := queue(t, c); len(left) != 1 {
			t.Fatalf("queue is %v, want the orphan", left)
		}
		p.setSilent(false)
		eventually(t, "the orphan is gone", func() bool { return len(queue(t, c)) == 0 })
		if session.over.Err() != nil {
			t.Error("only the end of the session removed it")
		}
		eventually(t, "connected again", func() bool { return s.State() == Connected })
		release(t, acquire(t, q, 5*time.Second))
	}
}

// Where the link comes back at once, the node is found by its guid, and the place in the queue is kept.
func TestPlaceOutlivesTheReplyOfCreate(t *testing.T) {
	host := servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := dial(t, p.addr())
	q, other, c := NewSequential(s), NewSequential(dial(t, host)), raw(t, host)
	holder := acquire(t, other, 5*time.Second)
	eventually(t, "connected", func() bool { return s.State() == Connected })
	p.cutAtNext(1, true)
	turn := acquireLater(t, q)
	eventually(t, "a node", func() bool { return len(queue(t, c)) == 2 })
	before := contenders(queue(t, c))
	eventually(t, "it waits", func() bool { return s.current.watching.count() == 1 })
	if after := contenders(queue(t, c)); !slices.Equal(after, before) {
		t.Errorf("queue is %v, was %v", after, before)
	}
	release(t, holder)
	lease := <-turn
	if _, stat, err := c.Exists(folderOf(t) + "/" + before[1].name); err != nil || 64*lock.Fence(stat.Czxid) != lease.Fence() {
		t.Errorf("fence %d, czxid %d, %v", lease.Fence(), stat.Czxid, err)
	}
	release(t, lease)
}

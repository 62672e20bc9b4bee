package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"example.com/stock/lock"
)

// A cutting is a case of cutAtEveryRequest.
type cutting struct {
	t      *testing.T
	proxy  *proxy
	s      *Session
	holder *lock.Lease
	later  *sync.WaitGroup
}

// then does what ends the wait once the connection has been cut, or else once there is nothing left to do but to wait.
func (c cutting) then(end func()) {
	c.later.Go(func() {
		defer end()
		eventually(c.t, "cut, or waiting", func() bool {
			_, _, cuts := c.proxy.counts()
			return cuts == 1 || c.s.watchesNow() == 1
		})
		<-time.After(20 * time.Millisecond) // for what comes after the cut; an early end makes the case another one
	})
}

// The reply to any one request, or the request itself, does not arrive, because the connection breaks. Whatever Acquire and Release
// then say: nothing is left behind, and the next one gets the key.
func TestCutAtEveryRequest(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) { cutAtEveryRequest(t, k) })
	}
}

func cutAtEveryRequest(t *testing.T, k kind) {
	host := servers.ZooKeeper(t)
	c := raw(t, host)
	nodes := func() int { return nodesIn(t, c, k.folder(t)) }
	uncontended := func(q lock.Locker, _ cutting) (*lock.Lease, error) {
		return q.Acquire(t.Context(), keyOf(t), lock.Options{})
	}
	try := func(q lock.Locker, _ cutting) (*lock.Lease, error) {
		return q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true})
	}
	contended := func(q lock.Locker, c cutting) (*lock.Lease, error) {
		c.then(func() { c.holder.Release() })
		return q.Acquire(t.Context(), keyOf(t), lock.Options{})
	}
	givenUp := func(q lock.Locker, c cutting) (*lock.Lease, error) {
		ctx, cancel := context.WithCancel(t.Context())
		c.then(cancel)
		return q.Acquire(ctx, keyOf(t), lock.Options{})
	}
	for _, row := range []struct {
		name     string
		acquire  func(lock.Locker, cutting) (*lock.Lease, error)
		held     bool           // by another
		requests map[string]int // that a run without a cut makes, with the making of the folder
	}{
		{"uncontended", uncontended, false, map[string]int{"zk-sequential": 4, "zk-ephemeral": 4}},
		{"try", try, false, map[string]int{"zk-sequential": 5, "zk-ephemeral": 5}},
		{"try of a held key", try, true, map[string]int{"zk-sequential": 2, "zk-ephemeral": 1}},
		{"contended", contended, true, map[string]int{"zk-sequential": 4, "zk-ephemeral": 4}},
		{"given up", givenUp, true, map[string]int{"zk-sequential": 4, "zk-ephemeral": 2}},
	} {
		for _, forward := range []bool{false, true} {
			for n := 1; n <= row.requests[k.name]; n++ {
				what := fmt.Sprintf("%s, cut at request %d, seen by the server: %v", row.name, n, forward)
				p := newProxy(t, host)
				s, others := dial(t, p.addr()), dial(t, host)
				q, other := k.open(s), k.open(others)
				eventually(t, "connected", func() bool { return s.State() == Connected })
				var holder *lock.Lease
				if row.held {
					holder = acquire(t, other, 20*time.Second)
				}
				p.cutAtNext(n, forward)
				var later sync.WaitGroup
				lease, err := row.acquire(q, cutting{t, p, s, holder, &later})
				later.Wait()
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
				eventually(t, what+": nothing left behind", func() bool { return nodes() == 0 })
				release(t, acquire(t, q, 20*time.Second))
				c.Delete(k.folder(t), -1) // the next case makes it again
				s.Close()
				others.Close()
			}
		}
	}
}

// The reply to the create is lost and the link stays silent: Acquire cannot know whether there is a node, and says that the server is
// down. The node goes as soon as the link is back, and not with the session only, which lives on.
func TestOrphanIsSweptWithinTheSession(t *testing.T) {
	host := servers.ZooKeeper(t)
	c := raw(t, host)
	for _, row := range []struct {
		kind   kind
		broken bool // the connection breaks and the next one hangs; otherwise it hangs
	}{{kinds()[0], false}, {kinds()[0], true}, {kinds()[1], true}} {
		nodes := func() int { return nodesIn(t, c, row.kind.folder(t)) }
		p := newProxy(t, host)
		s := open(t, Config{Hosts: []string{p.addr()}, SessionTimeout: 20 * time.Second})
		q := row.kind.open(s)
		release(t, acquire(t, q, 20*time.Second)) // makes the folder
		session := s.current
		p.mute = true
		p.cutAtNext(1, true)
		failed := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		go func() { _, err := q.Acquire(ctx, keyOf(t), lock.Options{}); failed <- err }()
		eventually(t, "an orphan", func() bool { return nodes() == 1 })
		if row.broken {
			p.cut()
		}
		if err := <-failed; !errors.Is(err, lock.ErrDown) {
			t.Errorf("acquire: %v", err)
		}
		if nodes() != 1 {
			t.Fatal("the orphan has gone before the link was back: it shows nothing")
		}
		p.setSilent(false)
		eventually(t, "the orphan is gone", func() bool { return nodes() == 0 })
		if session.over.Err() != nil {
			t.Error("only the end of the session removed it")
		}
		eventually(t, "connected again", func() bool { return s.State() == Connected })
		release(t, acquire(t, q, 20*time.Second))
	}
}

// Where the link comes back at once, the node is found by its guid, and the place in the queue is kept.
func TestPlaceOutlivesTheReplyOfCreate(t *testing.T) {
	host := servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := dial(t, p.addr())
	q, other, c := NewSequential(s), NewSequential(dial(t, host)), raw(t, host)
	release(t, acquire(t, q, 20*time.Second)) // reads the record of fences
	holder := acquire(t, other, 20*time.Second)
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
	if _, stat, err := c.Exists(folderOf(t) + "/" + before[1].name); err != nil || fenceOf(t, c, stat.Czxid) != lease.Fence() {
		t.Errorf("fence %d, czxid %d, %v", lease.Fence(), stat.Czxid, err)
	}
	release(t, lease)
}

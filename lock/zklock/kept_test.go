package zklock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/internal/stack/wire"
	"example.com/stock/lock"
)

// keeping returns a lock that keeps its leases for an hour.
func keeping(t testing.TB, s *Session) lock.Locker {
	t.Helper()
	l := lock.HandOver(NewSequential(s), lock.Bound{Keep: time.Hour})
	t.Cleanup(func() { _ = l.(interface{ Close() error }).Close() })
	return l
}

// give acquires and releases, and returns the fence.
func give(t testing.TB, l lock.Locker) lock.Fence {
	t.Helper()
	lease := acquire(t, l)
	release(t, lease)
	return lease.Fence()
}

// undisturbed repeats a test in which a busy computer kept the session from hearing for a while.
func undisturbed(t *testing.T, s *Session, test func(hearing context.Context) error) {
	t.Helper()
	for i := 1; ; i++ {
		connected(t, s)
		g, _ := s.now()
		s.mu.Lock()
		hearing := g.hearing
		s.mu.Unlock()
		err := test(hearing)
		if err == nil {
			return
		}
		if hearing.Err() == nil || i == 20 {
			t.Fatal(err)
		}
	}
}

// holdWatch makes the proxy hold back the next request that lists a folder.
func holdWatch(p *proxy) *wire.Snare {
	return p.Set(wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: func(frame []byte) bool {
		const getChildren2 = 12
		return len(frame) > opAt+4 && binary.BigEndian.Uint32(frame[opAt:]) == getChildren2
	}})
}

// Whoever comes next in this process asks nobody. The first one has asked once more, while it had the key.
func TestAKeptLeaseIsUsedAgain(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p, c := newProxy(t, host), raw(t, host)
	s := dial(t, p.Addr())
	l, other := keeping(t, s), NewSequential(dial(t, host))
	release(t, acquire(t, NewSequential(s))) // makes the folder, and reads the record of fences
	undisturbed(t, s, func(context.Context) error {
		give(t, other) // so that there is no lease yet
		eventually(t, "the key is free", func() bool { return len(queue(t, c)) == 0 })
		before := p.requests()
		last := give(t, l)
		eventually(t, "the folder is watched", func() bool { return p.requests() >= before+2 })
		for range 20 {
			fence := give(t, l)
			if fence != last+1 {
				return errors.New("the lease was not kept")
			}
			last = fence
		}
		if n := p.requests() - before; n != 2 {
			t.Errorf("%d requests for 21 acquisitions, want 2", n)
		}
		return nil
	})
}

// Another process is given the lock although nobody here releases it.
func TestAKeptLeaseIsRevoked(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	ours, theirs := keeping(t, dial(t, host)), NewSequential(dial(t, host))
	var last lock.Fence
	for i := range 20 {
		l := []lock.Locker{ours, theirs}[i%2]
		fence := give(t, l)
		if fence <= last {
			t.Errorf("fence %d after %d", fence, last)
		}
		last = fence
	}
	lease := acquire(t, ours)
	next := acquireLater(t, theirs)
	eventually(t, "another one waits", func() bool { return len(queue(t, c)) == 2 })
	release(t, lease)
	release(t, <-next)
}

// Whoever asks before the watch is set is heard when it is set, a try as well as a waiter.
func TestAKeptLeaseThatIsWantedBeforeItsWatch(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for name, ask := range map[string]func(*testing.T, lock.Locker){
		"waiter": func(t *testing.T, l lock.Locker) { release(t, acquire(t, l)) },
		"try": func(t *testing.T, l lock.Locker) {
			for {
				lease, err := l.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true})
				if !errors.Is(err, lock.ErrHeld) {
					must(t, err)
					release(t, lease)
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProxy(t, host)
			s := dial(t, p.Addr())
			q, l, other, c := NewSequential(s), keeping(t, s), NewSequential(dial(t, host)), raw(t, host)
			release(t, acquire(t, q))
			watch := holdWatch(p)
			give(t, l)
			<-watch.Sprung()
			served := make(chan struct{})
			before := changes(t, c)
			go func() {
				defer close(served)
				ask(t, other)
			}()
			eventually(t, "somebody has asked", func() bool { return changes(t, c) != before })
			watch.Release()
			<-served
		})
	}
}

// changes returns the last change of the nodes in the test's folder.
func changes(t *testing.T, c *zk.Conn) int64 {
	t.Helper()
	_, folder, err := c.Get(folderOf(t))
	must(t, err)
	return folder.Pzxid
}

// The first try that fails tells the keeper. As long as somebody works here, the next ones only read.
func TestAKeptLeaseIsRevokedByTryOnce(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p, c := newProxy(t, host), raw(t, host)
	ours, theirs := keeping(t, dial(t, host)), NewSequential(dial(t, p.Addr()))
	release(t, acquire(t, theirs))
	lease := acquire(t, ours)
	before := p.requests()
	for _, want := range []int{3, 5, 7} {
		_, err := theirs.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true})
		if n := p.requests() - before; !errors.Is(err, lock.ErrHeld) || n != want {
			t.Errorf("%d requests, %v; want %d", n, err, want)
		}
	}
	if n := len(queue(t, c)); n != 1 {
		t.Errorf("%d nodes", n)
	}
	release(t, lease)
	if n := len(queue(t, c)); n != 0 {
		t.Error("the lease is kept, although another process has tried to get it")
	}
	give(t, ours)
	eventually(t, "a later try succeeds", func() bool {
		lease, err := theirs.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true})
		if err == nil {
			release(t, lease)
		}
		return err == nil
	})
}

// An operator evicts the keeper: its next caller has a new lease, and one that works is told.
func TestAKeptLeaseIsEvicted(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	ours, theirs := keeping(t, dial(t, host)), NewSequential(dial(t, host))
	give(t, ours)
	limit, err := theirs.Evict(t.Context(), keyOf(t))
	must(t, err)
	eventually(t, "the keeper has another lease", func() bool {
		lease := acquire(t, ours)
		return lease.Release() == nil && lease.Fence() > limit // the lost one may be given out once more, and says so
	})
	lease := acquire(t, ours)
	_, err = theirs.Evict(t.Context(), keyOf(t))
	must(t, err)
	lost(t, lease)
}

// A process that cannot be told that another one wants the lock gives it back.
func TestAKeeperThatHearsNothing(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p, c := newProxy(t, host), raw(t, host)
	s := dial(t, p.Addr())
	l := keeping(t, s)
	for range 3 {
		eventually(t, "the lease is kept", func() bool {
			give(t, l)
			return len(queue(t, c)) == 1
		})
		p.Cut()
		eventually(t, "the lock is free", func() bool { return len(queue(t, c)) == 0 })
	}
}

// The server allows everything but the watch: nothing would be heard, and the lease is not kept.
func TestAKeeperWithoutAWatch(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	s := dial(t, host)
	l := keeping(t, s)
	release(t, acquire(t, NewSequential(s)))
	_, err := c.SetACL(folderOf(t), zk.WorldACL(zk.PermAll&^zk.PermRead), -1)
	must(t, err)
	give(t, l)
	eventually(t, "the lock is free", func() bool {
		_, folder, err := c.Exists(folderOf(t))
		must(t, err)
		return folder.NumChildren == 0
	})
}

// A contender of another program is heard, too.
func TestAKeptLeaseIsRevokedByAnotherClient(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	ours := keeping(t, dial(t, host))
	theirs := zk.NewLock(raw(t, host), folderOf(t), zk.WorldACL(zk.PermAll))
	for range 5 {
		give(t, ours)
		must(t, theirs.Lock())
		must(t, theirs.Unlock())
	}
}

// A process that was stopped does not use a lease whose session may be over, although no timer has run since.
func TestAKeptLeaseOfAFrozenProcess(t *testing.T) {
	t.Parallel()
	p := newProxy(t, Servers.ZooKeeper(t))
	s := dial(t, p.Addr())
	l := keeping(t, s)
	give(t, l)
	g, _ := s.now()
	p.silence() // or a heartbeat would say that the session lasts
	s.mu.Lock()
	g.alive = time.Now().Add(-g.timeout)
	s.mu.Unlock()
	over, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if lease, err := l.Acquire(over, keyOf(t), lock.Options{}); err == nil {
		t.Errorf("it has fence %d", lease.Fence())
	}
	p.Silence()
}

// The network of a keeper drops everything. Another process gets the lock when the session is over, and the keeper has
// given it up before.
func TestAKeeperThatIsCutOff(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	p := newProxy(t, host)
	s := open(t, Config{Hosts: []string{p.Addr()}, SessionTimeout: 6 * time.Second})
	ours, theirs := keeping(t, s), NewSequential(dial(t, host))
	last := give(t, ours)
	p.silence()
	lease := acquire(t, theirs)
	over, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if one, err := ours.Acquire(over, keyOf(t), lock.Options{}); err == nil {
		t.Errorf("both have the lock, with fences %d and %d", one.Fence(), lease.Fence())
	}
	if lease.Fence() <= last {
		t.Errorf("fence %d after %d", lease.Fence(), last)
	}
	release(t, lease)
	p.Silence()
	if again := give(t, ours); again <= lease.Fence() {
		t.Errorf("fence %d after %d", again, lease.Fence())
	}
}

// While others wait no lease is kept: each process hands the lock on when its own callers are done.
func TestNoLeaseIsKeptWhileOthersWait(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	var keepers []lock.Locker
	for range 3 {
		keepers = append(keepers, keeping(t, dial(t, host)))
	}
	first := acquire(t, keepers[0])
	second := acquireLater(t, keepers[1])
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	third := acquireLater(t, keepers[2])
	eventually(t, "two wait", func() bool { return len(queue(t, c)) == 3 })
	release(t, first)
	release(t, <-second)
	release(t, <-third)
	eventually(t, "a lease is kept again", func() bool {
		give(t, keepers[0])
		return len(queue(t, c)) == 1
	})
}

// A kept lease has one watch, which ends with it: neither leases nor keys pile up watches.
func TestKeepersLeaveNoWatch(t *testing.T) {
	t.Parallel()
	host := stacktest.Server(t, stack.ZooKeeper).Addr
	s := dial(t, host)
	l := lock.HandOver(NewSequential(s), lock.Bound{Keep: time.Hour})
	const n = 20
	undisturbed(t, s, func(hearing context.Context) error {
		for i := range n {
			lease, err := insist(t.Context(), func() (*lock.Lease, error) {
				return l.Acquire(t.Context(), keyOf(t)+strconv.Itoa(i), lock.Options{})
			})
			must(t, err)
			release(t, lease)
		}
		watches, began := "", time.Now()
		for hearing.Err() == nil && watches != strconv.Itoa(n) && time.Since(began) < patience {
			watches = watchesAt(t, host)
		}
		if watches != strconv.Itoa(n) {
			return fmt.Errorf("%s watches", watches)
		}
		return nil
	})
	_ = l.(interface{ Close() error }).Close()
	eventually(t, "no watch is left", func() bool { return watchesAt(t, host) == "0" })
}

// watchesAt returns how many watches a server has, on nodes and on their children.
func watchesAt(t *testing.T, host string) string {
	t.Helper()
	_, after, _ := strings.Cut(report(t, host, "mntr"), "zk_watch_count\t")
	count, _, _ := strings.Cut(after, "\n")
	return count
}

func BenchmarkKept(b *testing.B) {
	l := keeping(b, dial(b, Servers.ZooKeeper(b)))
	for b.Loop() {
		give(b, l)
	}
}

package zklock

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/locktest"
)

// What people see and do: the holder and, in a queue, the waiters in order. The evicted holder is told, also after a
// reconnect, the next one is in, and the fence lies between the two. The two locks of a key do not meet.
func TestInspectAndEvict(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	for _, k := range kinds {
		p := proxied(t, host)
		l, other := k.open(dial(t, p.Addr())), k.open(dial(t, host))
		holder := acquire(t, l)
		next := acquireLater(t, other)
		waiters := 0
		if k.name == queued.name {
			waiters = 1
		}
		locktest.Eventually(t, "a waiter", func() bool {
			all, err := l.InspectAll(t.Context(), []string{key, "free"})
			return err == nil && all[0].Holder != nil && all[0].Holder.Fence == holder.Fence() &&
				len(all[0].Waiters) == waiters && all[1].Holder == nil && !all[1].Local
		})
		locktest.Eventually(t, "the key in the list", func() bool {
			keys, err := l.Keys(t.Context())
			return err == nil && slices.Equal(keys, []string{key})
		})
		<-time.After(2 * heartbeatInterval) // the holder watches its node by now, or does so later
		p.Cut()
		fence := evict(t, other)
		loss := locktest.Loss(t, holder)
		lease := <-next
		if !errors.Is(loss, lock.ErrTaken) || fence <= holder.Fence() || fence > lease.Fence() {
			t.Errorf("%s: %v; fences %d, %d, %d", k.name, loss, holder.Fence(), fence, lease.Fence())
		}
		locktest.Release(t, lease)
		if free := evict(t, other); free <= lease.Fence() {
			t.Errorf("%s: evict from a free key: %d after %d", k.name, free, lease.Fence())
		}
	}
}

// A node that another made by hand, and that no session will take away, is told of, and can be evicted. What an
// operator writes to the folder does not keep a holder from giving the lock back.
func TestALockNodeThatNobodyOwns(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	e, c := NewEphemeral(dial(t, host)), raw(t, host, "")
	folder := rootOf(t) + "/" + key + ephemeralSuffix
	lease := acquire(t, e)
	_, err := c.Set(folder, []byte("a note"), -1)
	must(t, err)
	locktest.Release(t, lease)
	_, err = c.Create(folder+"/"+ephemeralName, []byte("mine"), 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	saysDown(t, "wait", refused(t, e, lock.Options{}), "foreign-nodes")
	saysDown(t, "try", refused(t, e, lock.Options{TryOnce: true}), "foreign-nodes")
	evict(t, e)
	locktest.Release(t, acquire(t, e))
}

// The herd's waiters that give up leave no watch behind that would be set again and again.
func TestTheHerdSharesAWatchInAProcess(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := dial(t, host)
	e := NewEphemeral(s)
	holder := acquire(t, NewEphemeral(dial(t, host)))
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := e.Acquire(ctx, key, lock.Options{}); err == nil {
			t.Error("got a held key")
		}
		cancel()
	}
	if n := s.watchCount(); n > 1 {
		t.Errorf("%d watches", n)
	}
	locktest.Release(t, holder)
	locktest.Eventually(t, "no watch left", func() bool { return s.watchCount() == 0 })
}

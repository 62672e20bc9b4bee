package zklock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/lock"
)

func ephemeralNode(t testing.TB) string { return ephemeralFolderOf(t) + "/" + ephemeralName }

// nodeExists reports whether the node of the key is there.
func nodeExists(t testing.TB, c *zk.Conn) bool {
	t.Helper()
	exists, _, err := c.Exists(ephemeralNode(t))
	must(t, err)
	return exists
}

func TestTheHerdsFenceComesFromTheCzxid(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	e, c := NewEphemeral(dial(t, host)), raw(t, host)
	var before lock.Fence
	for range 3 {
		lease := acquire(t, e)
		_, stat, err := c.Exists(ephemeralNode(t))
		if err != nil || fenceOf(t, c, stat.Czxid) != lease.Fence() || lease.Fence() <= before {
			t.Errorf("fence %d after %d, stat %+v, %v", lease.Fence(), before, stat, err)
		}
		before = lease.Fence()
		release(t, lease)
		// As the server does with an empty container. Its version begins again.
		must(t, c.Delete(ephemeralFolderOf(t), -1))
	}
}

// A holder whose node was taken away, in whatever way, does not delete the next one's, which has the same path.
func TestReleaseLeavesTheNextHoldersNode(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	e, other, c := NewEphemeral(dial(t, host)), NewEphemeral(dial(t, host)), raw(t, host)
	for how, evict := range map[string]func(*testing.T) error{
		"evicted":         func(t *testing.T) error { _, err := other.Evict(t.Context(), keyOf(t)); return err },
		"deleted by hand": func(t *testing.T) error { return c.Delete(ephemeralNode(t), -1) },
	} {
		t.Run(how, func(t *testing.T) {
			old := acquire(t, e)
			must(t, evict(t))
			next := acquire(t, other)
			_ = old.Release()
			if !nodeExists(t, c) {
				t.Error("the next holder's node was deleted")
			}
			release(t, next)
			if nodeExists(t, c) {
				t.Error("the node was left behind")
			}
		})
	}
	t.Run("its session is another by now", func(t *testing.T) {
		p := newProxy(t, host)
		s := dial(t, p.Addr())
		old := acquire(t, NewEphemeral(s))
		p.closeSession(t)
		next := acquire(t, other)
		eventually(t, "told", func() bool { return old.Err() != nil })
		connected(t, s)
		_ = old.Release()
		if !nodeExists(t, c) || len(s.orphans.list()) != 0 {
			t.Errorf("the next holder's node stands: %v; orphans: %v", nodeExists(t, c), s.orphans.list())
		}
		release(t, next)
	})
}

// What an operator writes to the folder does not keep a holder from giving the lock back.
func TestReleaseAfterTheFolderWasWrittenTo(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	e, c := NewEphemeral(dial(t, host)), raw(t, host)
	lease := acquire(t, e)
	if _, err := c.Set(ephemeralFolderOf(t), []byte("a note"), -1); err != nil {
		t.Fatal(err)
	}
	release(t, lease)
	if nodeExists(t, c) {
		t.Error("the node was left behind")
	}
}

// A node that another made by hand, and that no session will take away, is told of, and can be evicted.
func TestALockNodeThatNobodyOwns(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	e, c := NewEphemeral(dial(t, host)), raw(t, host)
	release(t, acquire(t, e)) // makes the folder
	_, err := c.Create(ephemeralNode(t), []byte("mine"), 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for how, o := range map[string]lock.Options{"wait": {}, "try": {TryOnce: true}} {
		_, err := e.Acquire(ctx, keyOf(t), o)
		namesTheFix(t, how, err, errNoLock, "foreign-nodes")
	}
	if _, err := e.Evict(t.Context(), keyOf(t)); err != nil {
		t.Fatal(err)
	}
	release(t, acquire(t, e))
}

// The herd's waiters that give up leave no watch behind that would be set again and again.
func TestTheHerdSharesAWatchInAProcess(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	s := dial(t, host)
	e, other := NewEphemeral(s), NewEphemeral(dial(t, host))
	holder := acquire(t, other)
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		if _, err := e.Acquire(ctx, keyOf(t), lock.Options{}); err == nil {
			t.Error("got a held key")
		}
		cancel()
	}
	if n := s.watchCount(); n > 1 {
		t.Errorf("%d watches", n)
	}
	var turns sync.WaitGroup
	for range 5 {
		turns.Go(func() { release(t, acquire(t, e)) })
	}
	release(t, holder)
	turns.Wait()
	eventually(t, "no watch left", func() bool { return s.watchCount() == 0 })
}

// The node has one name for all holders: only the guid in it says whose it is.
func TestANodeOfAnotherGuidIsNotFound(t *testing.T) {
	t.Parallel()
	s := dial(t, Servers.ZooKeeper(t))
	g, err := s.usable(t.Context())
	must(t, err)
	dir := rootOf(t) + "/k"
	must(t, g.makeFolder(t.Context(), dir))
	record, err := g.fenceRecord(t.Context())
	must(t, err)
	guid := uuid.NewString()
	made, err := ephemeral{}.create(g, record, dir, guid, "")
	must(t, err)
	if found, err := (ephemeral{}).find(t.Context(), g, dir, guid); err != nil || found.czxid != made.czxid {
		t.Errorf("by its own guid: %+v, %v", found, err)
	}
	if found, err := (ephemeral{}).find(t.Context(), g, dir, uuid.NewString()); !errors.Is(err, zk.ErrNoNode) {
		t.Errorf("by another guid: %+v, %v; want ErrNoNode", found, err)
	}
	must(t, ephemeral{}.delete(t.Context(), g, made))
}

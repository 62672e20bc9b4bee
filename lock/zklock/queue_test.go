package zklock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/lock"
)

func TestWhoGivesUpLeavesNoNode(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	lease := acquire(t, q, 20*time.Second)
	gone := errors.New("client gone")
	for name, make := range map[string]func() (context.Context, context.CancelFunc){
		"timeout": func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), time.Second)
		},
		"cancel": func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(gone) })
			return ctx, func() { cancel(nil) }
		},
	} {
		ctx, cancel := make()
		_, err := q.Acquire(ctx, keyOf(t), lock.Options{})
		if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, context.Cause(ctx)) || errors.Is(err, lock.ErrDown) {
			t.Errorf("%s: %v, want ErrHeld and the cause", name, err)
		}
		cancel()
		if left := queue(t, c); len(left) != 1 {
			t.Errorf("%s: queue is %v, want the holder alone", name, left)
		}
	}
	release(t, lease)
	release(t, lease) // idempotent
	release(t, acquire(t, q, 20*time.Second))
}

// The one in the middle goes; the one behind must neither get the lock nor miss its turn.
func TestWhoGivesUpInTheMiddle(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	holder := acquire(t, q, 20*time.Second)
	middle, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := q.Acquire(middle, keyOf(t), lock.Options{}); left <- err }()
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	turn := make(chan *lock.Lease, 1)
	go func() { lease, _ := q.Acquire(t.Context(), keyOf(t), lock.Options{}); turn <- lease }()
	// Each at the one before it: the third must hear of the second, and not take that for its turn.
	eventually(t, "two wait", func() bool { return len(queue(t, c)) == 3 && q.session.watchesNow() == 2 })
	leave()
	if err := <-left; !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	select {
	case <-turn:
		t.Error("got the lock while it is held")
	case <-time.After(300 * time.Millisecond): // a wrong grant would come with the watch event, at once
	}
	release(t, holder)
	release(t, <-turn)
}

func TestForeignChildrenAreLeftAlone(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	release(t, acquire(t, q, 20*time.Second)) // makes the folder
	for _, name := range []string{"leases", "lock-", "-lock-1", "x-lock-00000000zz", "_c_-lock-99999999999", "__lock__0000000000"} {
		if _, err := c.Create(folderOf(t)+"/"+name, nil, 0, everyone()); err != nil {
			t.Fatal(err)
		}
	}
	lease := acquire(t, q, 20*time.Second)
	if _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	release(t, lease)
}

// The client library's own lock uses Curator's names, too.
func TestExcludesOtherClients(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	theirs := zk.NewLock(c, folderOf(t), everyone())
	if err := theirs.Lock(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	turn := make(chan *lock.Lease, 1)
	go func() { lease, _ := q.Acquire(t.Context(), keyOf(t), lock.Options{}); turn <- lease }()
	eventually(t, "we wait", func() bool { return len(queue(t, c)) == 2 })
	if err := theirs.Unlock(); err != nil {
		t.Fatal(err)
	}
	ours := <-turn
	locked := make(chan error, 1)
	go func() { locked <- theirs.Lock() }()
	eventually(t, "they wait", func() bool { return len(queue(t, c)) == 2 })
	release(t, ours)
	if err := <-locked; err != nil {
		t.Error(err)
	}
	if err := theirs.Unlock(); err != nil {
		t.Error(err)
	}
}

// An operator takes a waiter's node away: it queues up again.
func TestDeletedWaiterQueuesAgain(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	holder := acquire(t, q, 20*time.Second)
	middle := acquireLater(t, q)
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	last := acquireLater(t, q)
	eventually(t, "two wait", func() bool { return len(queue(t, c)) == 3 })
	names := contenders(queue(t, c))
	if err := c.Delete(folderOf(t)+"/"+names[1].name, -1); err != nil { // wakes the last, which re-lists
		t.Fatal(err)
	}
	eventually(t, "both wait behind the holder again", func() bool { return len(queue(t, c)) >= 2 })
	release(t, holder)
	first := <-last
	release(t, first)
	release(t, <-middle)
}

func acquireLater(t *testing.T, q lock.Locker) <-chan *lock.Lease {
	turn := make(chan *lock.Lease, 1)
	go func() {
		lease, err := q.Acquire(t.Context(), keyOf(t), lock.Options{})
		if err != nil {
			t.Errorf("acquire: %v", err)
		}
		turn <- lease
	}()
	return turn
}

func TestKeysDoNotMix(t *testing.T) {
	host := servers.ZooKeeper(t)
	q := NewSequential(dial(t, host))
	id := uuid.NewString()
	keys := []string{id, id + "/", "/" + id, id + "%2F", id + "\x00", id + " ", id + "😀", id + "\xff", ".", "..", "zookeeper", "%2E"}
	for _, key := range keys {
		lease, err := q.Acquire(t.Context(), key, lock.Options{TryOnce: true})
		if err != nil {
			t.Fatalf("key %q: %v", key, err)
		}
		defer release(t, lease)
	}
	for _, key := range []string{"", string(make([]byte, maxKey+1))} {
		if _, err := q.Acquire(t.Context(), key, lock.Options{}); err == nil {
			t.Errorf("key of %d bytes was taken", len(key))
		}
	}
}

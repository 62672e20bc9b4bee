package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
)

func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q := []*Sequential{NewSequential(dial(t, host)), NewSequential(dial(t, host)), NewSequential(dial(t, host))}
	first := acquire(t, q[0])
	var served []int
	var waiting sync.WaitGroup
	const n = 6
	for i := range n {
		waiting.Go(func() {
			lease, err := q[i%len(q)].Acquire(t.Context(), keyOf(t), lock.Options{Owner: strconv.Itoa(i)})
			if err != nil {
				t.Error(err)
				return
			}
			served = append(served, i) // guarded by the lock; -race checks that
			if err := lease.Release(); err != nil {
				t.Error(err)
			}
		})
		eventually(t, "contender "+strconv.Itoa(i)+" in the queue", func() bool {
			all, err := q[0].Contenders(t.Context(), keyOf(t))
			return err == nil && len(all) == i+2
		})
	}
	all, err := q[0].Contenders(t.Context(), keyOf(t))
	must(t, err)
	if all[0].Fence != first.Fence() {
		t.Errorf("the first contender has fence %d, the holder's lease %d", all[0].Fence, first.Fence())
	}
	for i, c := range all[1:] {
		if c.Who != strconv.Itoa(i) || c.Fence <= all[i].Fence || time.Since(c.Since).Abs() > time.Minute {
			t.Errorf("place %d: %+v after %+v", i+1, c, all[i])
		}
	}
	release(t, first)
	waiting.Wait()
	if !slices.IsSorted(served) || len(served) != n {
		t.Errorf("served %v", served)
	}
}

func TestTryOnce(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, other, c := NewSequential(dial(t, host)), NewSequential(dial(t, host)), raw(t, host)
	lease, err := q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true, Owner: "anna"})
	must(t, err)
	_, before, _ := c.Exists(folderOf(t))
	_, err = other.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true})
	var held *lock.HeldError
	if !errors.As(err, &held) || held.Holder != "anna" || held.Key != keyOf(t) || errors.Is(err, lock.ErrDown) {
		t.Errorf("try of a held key: %v", err)
	}
	if _, after, _ := c.Exists(folderOf(t)); *after != *before {
		t.Errorf("a failed try wrote: %+v, before %+v", after, before)
	}
	release(t, lease)
	lease, err = other.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true})
	must(t, err)
	release(t, lease)
}

// Of many that try a free key at once, at most one may get it, and none may leave a node.
func TestTriesAtOnce(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	for range stacktest.Rounds(20, 8) {
		var got atomic.Int32
		var trying sync.WaitGroup
		var leases [16]*lock.Lease
		for i := range leases {
			trying.Go(func() {
				lease, err := q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true})
				if err == nil {
					got.Add(1)
					leases[i] = lease
				} else if !errors.Is(err, lock.ErrHeld) {
					t.Error(err)
				}
			})
		}
		trying.Wait()
		if n := len(queue(t, c)); got.Load() > 1 || n != int(got.Load()) {
			t.Fatalf("%d got the key and there are %d nodes", got.Load(), n)
		}
		for _, lease := range leases {
			if lease != nil {
				release(t, lease)
			}
		}
	}
}

func TestWhoGivesUpLeavesNoNode(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	lease := acquire(t, q)
	gone := errors.New("client gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		eventually(t, "it waits", func() bool { return q.session.watchCount() == 1 })
		cancel(gone)
	}()
	_, err := q.Acquire(ctx, keyOf(t), lock.Options{})
	if !errors.Is(err, lock.ErrHeld) || !errors.Is(err, gone) || errors.Is(err, lock.ErrDown) {
		t.Errorf("%v, want ErrHeld and the cause", err)
	}
	if left := queue(t, c); len(left) != 1 {
		t.Errorf("queue is %v, want the holder alone", left)
	}
	release(t, lease)
	release(t, lease) // idempotent
	release(t, acquire(t, q))
}

// The one in the middle goes; the one behind must neither get the lock nor miss its turn.
func TestWhoGivesUpInTheMiddle(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, behind, c := NewSequential(dial(t, host)), NewSequential(dial(t, host)), raw(t, host)
	holder := acquire(t, q)
	middle, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { _, err := q.Acquire(middle, keyOf(t), lock.Options{}); left <- err }()
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	next := acquireLater(t, behind)
	// Each at the one before it: the third must hear of the second, and not take that for its turn.
	eventually(t, "two wait", func() bool { return len(queue(t, c)) == 3 && behind.session.watchCount() == 1 })
	first := folderOf(t) + "/" + parseQueue(queue(t, c))[0].name
	leave()
	if err := <-left; !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	eventually(t, "the third waits for the first", func() bool { return behind.session.watched(first) != nil })
	select {
	case <-next:
		t.Fatal("got the lock while it is held")
	default:
	}
	release(t, holder)
	release(t, <-next)
}

func TestForeignChildrenAreLeftAlone(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	release(t, acquire(t, q)) // makes the folder
	for _, name := range []string{
		"leases", "lock-", "-lock-1", "x-lock-00000000zz", "_c_-lock-99999999999", "__lock__0000000000",
	} {
		if _, err := c.Create(folderOf(t)+"/"+name, nil, 0, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	lease := acquire(t, q)
	if _, err := q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true}); !errors.Is(err, lock.ErrHeld) {
		t.Error(err)
	}
	release(t, lease)
}

// An operator deletes the node of a waiter that has two others before it. The waiter queues up again.
func TestDeletedWaiterQueuesAgain(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	holder := acquire(t, q)
	first := acquireLater(t, q)
	eventually(t, "one waits", func() bool { return len(queue(t, c)) == 2 })
	second := acquireLater(t, q)
	eventually(t, "two wait", func() bool { return len(queue(t, c)) == 3 })
	names := parseQueue(queue(t, c))
	must(t, c.Delete(folderOf(t)+"/"+names[2].name, -1))
	release(t, holder)
	release(t, <-first)
	release(t, <-second)
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		why, name string
		sequence  int32
		ours      bool
	}{
		{"Curator's and ours", "_c_6f1b7c1e-9a3c-4a53-9d1a-0c8f3f5d7e21-lock-0000000012", 12, true},
		{"the client library's own lock", "_c_8f14e45fceea167a5a36dedd4bea2543-lock-2147483647", 2147483647, true},
		{"after the counter wrapped", "_c_x-lock--2147483648", -2147483648, true},
		{"ten digits with the sign", "_c_x-lock--000000001", -1, true},
		{"a guid that looks like a lock", "_c_-lock-0000000001-lock-0000000002", 2, true},
		{"kazoo: another queue, if anything", "6f1b__lock__0000000001", 0, false},
		{"too short", "_c_x-lock-12", 0, false},
		{"too large", "_c_x-lock-2147483648", 0, false},
		{"padded", "_c_x-lock-00000000012", 0, false},
		{"minus nothing", "_c_x-lock--000000000", 0, false},
		{"signed", "_c_x-lock-+000000012", 0, false},
		{"underscored", "_c_x-lock-1_00000000", 0, false},
		{"no number", "_c_x-lock-", 0, false},
		{"nothing", "", 0, false},
	} {
		if c, ok := parseName(row.name); ok != row.ours || c.sequence != row.sequence {
			t.Errorf("%s: parseName(%q) = %v, %v", row.why, row.name, c, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("_c_6f1b7c1e-9a3c-4a53-9d1a-0c8f3f5d7e21-lock-0000000012")
	f.Add("-lock--2147483648")
	f.Add("x-lock--000000001")
	f.Fuzz(func(t *testing.T, name string) {
		c, ok := parseName(name)
		if !ok {
			return
		}
		// What is ours is exactly what a server can have appended.
		if whole := fmt.Sprintf("-lock-%010d", c.sequence); c.name != name || !strings.HasSuffix(name, whole) {
			t.Errorf("parseName(%q) = %v", name, c)
		}
	})
}

func name(sequence int32) string { return fmt.Sprintf("_c_x-lock-%010d", sequence) }

func TestLocate(t *testing.T) {
	t.Parallel()
	const last = 1<<31 - 1
	for _, row := range []struct {
		why      string
		children []string
		own      string
		want     place
	}{
		{"alone", []string{name(7)}, name(7), place{true, 0, "", name(7)}},
		{"first", []string{name(9), name(7), name(8)}, name(7), place{true, 0, "", name(7)}},
		{"third", []string{name(9), name(7), name(8)}, name(9), place{true, 2, name(8), name(7)}},
		{"gone", []string{name(9), name(7)}, name(8), place{false, 1, name(7), name(7)}},
		{"foreign children", []string{"a", name(8), "x-lock-1"}, name(8), place{true, 0, "", name(8)}},
		{
			"behind the last number",
			[]string{name(-1 << 31), name(last)},
			name(-1 << 31),
			place{true, 1, name(last), name(last)},
		},
		{"the last number", []string{name(-1 << 31), name(last)}, name(last), place{true, 0, "", name(last)}},
		{"from the last negative number", []string{name(0), name(-1)}, name(0), place{true, 1, name(-1), name(-1)}},
	} {
		if got := locate(row.children, row.own); got != row.want {
			t.Errorf("%s: %+v, want %+v", row.why, got, row.want)
		}
	}
}

// Every order of the children must give the same place, which agrees with the sorted queue.
func FuzzLocate(f *testing.F) {
	f.Add(int32(-1<<31), uint8(5), uint8(2))
	f.Add(int32(1<<31-3), uint8(9), uint8(8))
	f.Fuzz(func(t *testing.T, first int32, n, own uint8) {
		if n == 0 {
			return
		}
		var names []string
		for i := range int32(n) {
			names = append(names, name(first+i))
		}
		own %= n
		shuffled := slices.Clone(names)
		slices.Reverse(shuffled[:len(shuffled)/2])
		slices.Reverse(shuffled)
		want := place{found: true, ahead: int(own), head: names[0]}
		if own > 0 {
			want.before = names[own-1]
		}
		if got := locate(shuffled, names[own]); got != want {
			t.Errorf("%v of %v: %+v, want %+v", names[own], shuffled, got, want)
		}
		queue := parseQueue(shuffled)
		for i, c := range queue {
			if c.name != names[i] {
				t.Errorf("place %d is %s, want %s", i, c.name, names[i])
			}
		}
	})
}

// Somebody writes to the holder's node: the waiter behind it is woken, and its turn has not come.
func TestAChangedNodeIsNoTurn(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, behind, c := NewSequential(dial(t, host)), NewSequential(dial(t, host)), raw(t, host)
	holder := acquire(t, q)
	next := acquireLater(t, behind)
	eventually(t, "one waits", func() bool { return behind.session.watchCount() == 1 })
	path := folderOf(t) + "/" + parseQueue(queue(t, c))[0].name
	before := behind.session.watched(path)
	_, err := c.Set(path, []byte("written by another"), -1)
	must(t, err)
	eventually(t, "it looks again", func() bool {
		now := behind.session.watched(path)
		return now != nil && now != before
	})
	select {
	case <-next:
		t.Fatal("got the lock while it is held")
	default:
	}
	release(t, holder)
	release(t, <-next)
}

package zklock

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/stock/lock"
)

// contend lets n contenders take turns of the key, rounds times each, and records who held it when.
func contend(t *testing.T, lockers []lock.Locker, n, rounds int) *history {
	h := &history{start: time.Now()}
	var contenders sync.WaitGroup
	for i := range n {
		contenders.Go(func() {
			for range rounds {
				lease, err := lockers[i%len(lockers)].Acquire(t.Context(), keyOf(t), lock.Options{})
				if err != nil {
					t.Errorf("contender %d: %v", i, err)
					return
				}
				h.during(lease.Fence(), func() {
					time.Sleep(200 * time.Microsecond) // widens the window in which an overlap is seen
				})
				if err := lease.Release(); err != nil {
					t.Errorf("contender %d: release: %v", i, err)
				}
			}
		})
	}
	contenders.Wait()
	return h
}

func TestThirtyContendersOfFiveSessions(t *testing.T) {
	host := servers.ZooKeeper(t)
	lockers := make([]lock.Locker, 5)
	for i := range lockers {
		lockers[i] = NewSequential(dial(t, host))
	}
	h := contend(t, lockers, 30, 20)
	if len(h.holds) != 600 {
		t.Errorf("%d holds, want 600", len(h.holds))
	}
	if err := h.judge(); err != nil {
		t.Error(err)
	}
	if left := queue(t, raw(t, host)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// eager is a broken Sequential: it does not look who is ahead.
type eager struct{ *Sequential }

func (e eager) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	dir, _ := e.session.folder(key)
	g, err := e.session.usable(ctx)
	if err != nil {
		return nil, err
	}
	own, err := g.enter(ctx, queued{}, &turn{dir: dir})
	if err != nil {
		return nil, err
	}
	return g.lease(queued{}, key, own), nil
}

func TestJudgeCatchesALockThatDoesNotWait(t *testing.T) {
	broken := eager{NewSequential(dial(t, servers.ZooKeeper(t)))}
	if err := contend(t, []lock.Locker{broken}, 30, 20).judge(); err == nil {
		t.Error("600 holds without a lock were judged well")
	}
}

func TestFirstComeFirstServed(t *testing.T) {
	host := servers.ZooKeeper(t)
	q := []*Sequential{NewSequential(dial(t, host)), NewSequential(dial(t, host)), NewSequential(dial(t, host))}
	first := acquire(t, q[0], 20*time.Second)
	var served []int
	var waiting sync.WaitGroup
	const n = 12
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
	if err != nil {
		t.Fatal(err)
	}
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

func TestFenceComesFromTheCzxid(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	lease := acquire(t, q, 20*time.Second)
	defer release(t, lease)
	name := queue(t, c)[0]
	_, stat, err := c.Exists(folderOf(t) + "/" + name)
	if err != nil || fenceOf(t, c, stat.Czxid) != lease.Fence() {
		t.Errorf("fence %d, czxid %d, %v", lease.Fence(), stat.Czxid, err)
	}
	if curators := regexp.MustCompile(`^_c_[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}-lock-[0-9]{10}$`); !curators.MatchString(name) {
		t.Errorf("node %q is not named as Curator does", name)
	}
}

// The sequence starts again with a new folder; the fence must not.
func TestFenceGrowsAcrossANewFolder(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	var before lock.Fence
	for range 3 {
		lease := acquire(t, q, 20*time.Second)
		if n, _ := parse(queue(t, c)[0]); n.sequence != 0 {
			t.Errorf("sequence %d in a new folder", n.sequence)
		}
		if lease.Fence() <= before {
			t.Errorf("fence %d after %d", lease.Fence(), before)
		}
		before = lease.Fence()
		release(t, lease)
		if err := c.Delete(folderOf(t), -1); err != nil { // as the server does with an empty container
			t.Fatal(err)
		}
	}
}

func TestTryOnce(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, other, c := NewSequential(dial(t, host)), NewSequential(dial(t, host)), raw(t, host)
	lease, err := q.Acquire(t.Context(), keyOf(t), lock.Options{TryOnce: true, Owner: "anna"})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	release(t, lease)
}

// Of many that try a free key at once, at most one may get it, and none may leave a node.
func TestTriesAtOnce(t *testing.T) {
	host := servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	for range 20 {
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

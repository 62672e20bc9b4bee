package zklock

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
	"example.com/stock/lock/locktest"
	"example.com/stock/lock/locktest/servertest"
)

// The sequence starts again with a new folder; the fence must not.
func TestFenceGrowsAcrossANewFolder(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	var before lock.Fence
	for range 3 {
		lease := acquire(t, q)
		if n, _ := parseName(nodes(t, c, q.recipe)[0]); n.sequence != 0 || lease.Fence() <= before {
			t.Errorf("sequence %d in a new folder, fence %d after %d", n.sequence, lease.Fence(), before)
		}
		before = lease.Fence()
		locktest.Release(t, lease)
		must(t, c.Delete(rootOf(t)+"/"+key, -1)) // as the server does with an empty container
	}
}

// take is generation.fence without a server: the one client there is raises the record as it needs.
func take(t *testing.T, r *fenceRecord, czxid, clock int64) (*fenceRecord, lock.Fence) {
	t.Helper()
	fence, covered := r.fence(czxid)
	if !covered {
		var ok bool
		if r, ok = r.extended(czxid, clock); ok {
			fence, covered = r.fence(czxid)
		}
	}
	if !covered {
		t.Fatalf("czxid %#x has no fence", czxid)
	}
	return r, fence
}

// Within an ensemble fences grow with the czxid, with room for a hand-over, whatever elections, clocks and rates do;
// and so do those of clients who know an older record. A new record begins at the server's clock, so that a new
// ensemble is ahead of one that was lost.
func TestFencesGrowInAnEnsemble(t *testing.T) {
	t.Parallel()
	const most = 1<<32 - 1 // transactions in an epoch; then the server holds an election
	for seed := range uint64(servertest.Rounds(300, 30)) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, last := &fenceRecord{}, lock.Fence(0)
		epoch, count, clock := random.Int64N(5), random.Int64N(1<<33)%most, int64(1_795_000_000_000)
		var known []*fenceRecord
		for range 500 {
			switch random.IntN(20) {
			case 0:
				epoch, count = epoch+1+random.Int64N(3), 0
			case 1:
				clock += random.Int64N(2*3600_000) - 3600_000
			case 2:
				count = min(count+random.Int64N(1<<31), most-1)
			}
			if count == most {
				epoch, count = epoch+1, 0
			}
			count, clock = min(count+1+random.Int64N(100), most), clock+random.Int64N(50)
			czxid := epoch<<32 | count
			var fence lock.Fence
			s, fence = take(t, s, czxid, clock)
			for _, old := range known {
				if other, ok := old.fence(czxid); ok && other != fence {
					t.Fatalf("seed %d: czxid %#x is %d by an older record, and %d", seed, czxid, other, fence)
				}
			}
			if fence < last+driver.FenceRange && count < most || fence > 1<<53 ||
				last == 0 && fence != lock.Fence(clock*1000) {
				t.Fatalf("seed %d: czxid %#x has fence %d after %d", seed, czxid, fence, last)
			}
			last, known = fence, append(known, s)
			if _, ok := s.extended((epoch-1)<<32|most, clock); ok {
				t.Fatalf("seed %d: a node of an epoch that is over has a fence, beside larger ones", seed)
			}
		}
	}
}

// The record says what an election leaves: it ends with another epoch than the server is in. Or it vanishes under
// sessions that know it, by an operator's hand or with all the rest. The fences are ahead of all before, also where the
// clock is behind, and the other session, which knows the record of before, finds out at its next create.
func TestTheRecordIsAnother(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	origin := rootOf(t) + "/" + originName
	path := func() string {
		name, _, err := c.Get(origin)
		must(t, err)
		return origin + "/" + string(name)
	}
	vanish := func() { must(t, errors.Join(c.Delete(path(), -1), c.Delete(origin, -1))) }
	lockers := []*Sequential{NewSequential(dial(t, host)), NewSequential(dial(t, host))}
	last := lock.Fence(0)
	both := func(what string) {
		t.Helper()
		for _, l := range lockers {
			lease := acquire(t, l)
			if lease.Fence() <= last {
				t.Errorf("%s: fence %d after %d", what, lease.Fence(), last)
			}
			last = lease.Fence()
			locktest.Eventually(t, what+": the holder's fence", func() bool {
				s, err := lock.Inspect(t.Context(), l, key)
				return err == nil && s.Holder != nil && s.Holder.Fence == last
			})
			locktest.Release(t, lease)
		}
	}
	both("at first")
	vanish()
	both("without a record")
	const mark = 4_000_000_000_000_000 // the fences are decades ahead of the clock
	data, err := json.Marshal(fenceRecord{Mark: mark, Epoch: -1, Base: mark / 2})
	must(t, err)
	_, err = c.Set(path(), data, -1)
	must(t, err)
	last = mark - 1
	both("after an election")
	vanish()
	_, err = c.Create(origin, []byte("hello"), 0, zk.WorldACL(zk.PermAll))
	must(t, err)
	saysDown(t, "not a record", refused(t, NewSequential(dial(t, host)), lock.Options{}), "foreign-nodes")
}

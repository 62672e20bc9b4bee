package zklock

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
)

func TestFenceComesFromTheCzxid(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	lease := acquire(t, q)
	defer release(t, lease)
	name := queue(t, c)[0]
	_, stat, err := c.Exists(folderOf(t) + "/" + name)
	if err != nil || fenceOf(t, c, stat.Czxid) != lease.Fence() {
		t.Errorf("fence %d, czxid %d, %v", lease.Fence(), stat.Czxid, err)
	}
	curators := regexp.MustCompile(`^_c_[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}-lock-[0-9]{10}$`)
	if !curators.MatchString(name) {
		t.Errorf("node %q is not named as Curator does", name)
	}
}

// The sequence starts again with a new folder; the fence must not.
func TestFenceGrowsAcrossANewFolder(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	q, c := NewSequential(dial(t, host)), raw(t, host)
	var before lock.Fence
	for range 3 {
		lease := acquire(t, q)
		if n, _ := parseName(queue(t, c)[0]); n.sequence != 0 {
			t.Errorf("sequence %d in a new folder", n.sequence)
		}
		if lease.Fence() <= before {
			t.Errorf("fence %d after %d", lease.Fence(), before)
		}
		before = lease.Fence()
		release(t, lease)
		must(t, c.Delete(folderOf(t), -1)) // as the server does with an empty container
	}
}

// recordBelow is the record of fences below root, as it is on the server.
func recordBelow(t testing.TB, c *zk.Conn, root string) *fenceRecord {
	t.Helper()
	name, _, err := c.Get(root + "/" + originName)
	must(t, err)
	s := &fenceRecord{path: root + "/" + originName + "/" + string(name)}
	data, stat, err := c.Get(s.path)
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	must(t, err)
	s.version = stat.Version
	return s
}

// fenceOf is what the record says of a node.
func fenceOf(t testing.TB, c *zk.Conn, czxid int64) lock.Fence {
	t.Helper()
	s := recordBelow(t, c, rootOf(t))
	fence, ok := s.fence(czxid)
	if !ok {
		t.Fatalf("czxid %d is not covered by %+v", czxid, s)
	}
	return fence
}

// take is number without a server: the one client there is raises the record as it needs.
func take(t *testing.T, s *fenceRecord, czxid, clock int64) (*fenceRecord, lock.Fence) {
	t.Helper()
	fence, ok := s.fence(czxid)
	if !ok {
		if s, ok = s.extended(czxid, clock); !ok {
			t.Fatalf("czxid %#x cannot be reached", czxid)
		}
		if fence, ok = s.fence(czxid); !ok {
			t.Fatalf("czxid %#x was reached and is not covered", czxid)
		}
	}
	return s, fence
}

// Within an ensemble fences grow with the czxid, with room for a hand-over, whatever elections, clocks and rates do;
// and so do those of clients who know an older record.
func TestFencesGrowInAnEnsemble(t *testing.T) {
	t.Parallel()
	for seed := range uint64(stacktest.Rounds(300, 30)) {
		random := rand.New(rand.NewPCG(seed, 0))
		s, last := &fenceRecord{}, lock.Fence(0)
		epoch, count, clock := random.Int64N(5), random.Int64N(1<<33)%(1<<32-1), int64(1_795_000_000_000)
		var known []*fenceRecord
		for range 500 {
			switch random.IntN(20) {
			case 0:
				epoch, count = epoch+1+random.Int64N(3), 0
			case 1:
				clock += random.Int64N(2*3600_000) - 3600_000
			case 2:
				count = min(count+random.Int64N(1<<31), 1<<32-2)
			}
			count, clock = min(count+1+random.Int64N(100), 1<<32-1), clock+random.Int64N(50)
			czxid := epoch<<32 | count
			var fence lock.Fence
			s, fence = take(t, s, czxid, clock)
			for _, old := range known {
				if other, ok := old.fence(czxid); ok && other != fence {
					t.Fatalf("seed %d: czxid %#x is %d by an older record, and %d", seed, czxid, other, fence)
				}
			}
			if fence < last+fenceRange && count < 1<<32-1 {
				t.Fatalf("seed %d: czxid %#x has fence %d after %d", seed, czxid, fence, last)
			}
			if last = fence; len(known) == 0 || known[len(known)-1] != s {
				known = append(known, s)
			}
			if count == 1<<32-1 {
				epoch, count = epoch+1, 0 // as the server does it: an election
			}
		}
	}
}

// A node of an epoch that is over has a fence only if nobody after it can have that.
func TestANodeFromBeforeTheElection(t *testing.T) {
	t.Parallel()
	const clock = 1_795_000_000_000
	s, first := take(t, &fenceRecord{}, 1<<32|10, clock)
	s, _ = take(t, s, 3<<32|1, clock)
	if fence, ok := s.fence(1<<32 | 11); !ok || fence != first+fenceRange {
		t.Errorf("the next of the old epoch has %d, %v, want %d", fence, ok, first+fenceRange)
	}
	// The number of 80,000 would be below the mark, and among those of the epoch after it.
	for _, late := range []int64{1<<32 | 80_000, 1<<32 | 10_000_000, 2<<32 | 1} {
		if fence, ok := s.fence(late); ok {
			t.Errorf("czxid %#x has fence %d, which is another's", late, fence)
		}
		if _, ok := s.extended(late, clock); ok {
			t.Errorf("czxid %#x was given numbers of the past", late)
		}
		if got, next := s.above(late), lock.Fence(s.Terms[1].Base); got != next {
			t.Errorf("above %#x is %d, want where the next epoch begins, %d", late, got, next)
		}
	}
}

// The fence is the server's clock when the record begins. So a new ensemble is ahead of one that was lost; and of the
// programs that took 64 times the czxid.
func TestTheRecordBeginsAtTheClock(t *testing.T) {
	t.Parallel()
	const clock = 1_795_000_000_000
	for _, row := range []struct {
		name  string
		czxid int64
		want  lock.Fence
	}{
		{"a new ensemble", 1<<32 | 7, clock * 1000},
		{"a server alone", 5000, clock * 1000},
		{"one that has run for long", 9<<32 | 1<<31, clock * 1000},
		{"one with an election every hour", 8000<<32 | 12, (8000<<32 | 12) * fenceRange},
	} {
		s, got := take(t, &fenceRecord{}, row.czxid, clock)
		if got != row.want {
			t.Errorf("%s: fence %d, want %d", row.name, got, row.want)
		}
		if old := lock.Fence(row.czxid) * fenceRange; got < old {
			t.Errorf("%s: fence %d, and %d before the update", row.name, got, old)
		}
		// Ten elections later, ten minutes later, and 1,000 transactions a second: not ahead of the clock by more
		// than the mark is.
		for i := range int64(10) {
			_, count := split(row.czxid)
			s, got = take(t, s, (row.czxid>>32+1+i)<<32|(count+i)%1000, clock+i*60_000)
		}
		if over := int64(got) - (clock+9*60_000)*1000; row.want == clock*1000 && over > markLead {
			t.Errorf("%s: %d us ahead of the clock", row.name, over)
		}
		if got > 1<<53 {
			t.Errorf("%s: fence %d is no whole number in a browser", row.name, got)
		}
	}
	old, last := take(t, &fenceRecord{}, 4<<32|100, clock)
	for i := int64(49); i < 1_000_000; i += 50 {
		old, last = take(t, old, 4<<32|(100+i), clock+i) // 1,000 transactions a second
	}
	if _, first := take(t, &fenceRecord{}, 3, clock+1_000_000); first < last+fenceRange {
		t.Errorf("the new ensemble begins at %d, the old one ended at %d", first, last)
	}
}

// An election, as it looks from here: the record ends with another epoch than the server is in now. The fences are
// ahead of all before, also where the clock is behind, and the other session, which knows the record of before, finds
// out at its next create.
func TestFencesGrowAcrossAnElection(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	for _, k := range kinds() {
		root := "/election-" + uuid.NewString()
		a, b := k.open(rooted(t, host, root)), k.open(rooted(t, host, root))
		last := acquire(t, a)
		release(t, last)
		release(t, acquire(t, b))
		const mark = 4_000_000_000_000_000 // the fences are decades ahead of the clock
		data, err := json.Marshal(fenceRecord{Mark: mark, Terms: []term{{Epoch: -1, Base: mark / 2}}})
		must(t, err)
		_, err = c.Set(recordBelow(t, c, root).path, data, -1)
		must(t, err)
		before := lock.Fence(mark - 1)
		for _, l := range []lock.Locker{a, b, a} {
			lease := acquire(t, l)
			if lease.Fence() <= before || lease.Fence() >= mark+1<<40 {
				t.Errorf("%s: fence %d after %d", k.name, lease.Fence(), before)
			}
			before = lease.Fence()
			release(t, lease)
		}
	}
}

// The record vanishes under sessions that know it: by an operator's hand, or with all the rest. It is made again,
// once, and both go on.
func TestTheRecordVanishes(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	for _, k := range kinds() {
		root := "/vanished-" + uuid.NewString()
		lockers := []inspectable{k.open(rooted(t, host, root)), k.open(rooted(t, host, root))}
		var last lock.Fence
		for range 3 {
			for _, l := range lockers {
				lease := acquire(t, l)
				if lease.Fence() <= last {
					t.Errorf("%s: fence %d after %d", k.name, lease.Fence(), last)
				}
				last = lease.Fence()
				if s, err := l.Inspect(t.Context(), keyOf(t)); err != nil || s.Holder == nil || s.Holder.Fence != last {
					t.Errorf("%s: %+v, %v, want a holder with fence %d", k.name, s.Holder, err, last)
				}
				release(t, lease)
			}
			must(t, c.Delete(recordBelow(t, c, root).path, -1))
			must(t, c.Delete(root+"/"+originName, -1))
		}
		if fence, err := lockers[1].Evict(t.Context(), keyOf(t)); err != nil || fence <= last {
			t.Errorf("%s: evict: %d after %d, %v", k.name, fence, last, err)
		}
	}
}

// What is not a record is said to be in the way, and is not overwritten.
func TestSomethingElseWhereTheRecordBelongs(t *testing.T) {
	t.Parallel()
	host := Servers.ZooKeeper(t)
	c := raw(t, host)
	root := "/strange-" + uuid.NewString()
	for _, path := range []string{root, root + "/" + originName} {
		_, err := c.Create(path, []byte("hello"), 0, zk.WorldACL(zk.PermAll))
		must(t, err)
	}
	for _, k := range kinds() {
		_, err := k.open(rooted(t, host, root)).Acquire(t.Context(), keyOf(t), lock.Options{})
		namesTheFix(t, k.name, err, errNoLock, "foreign-nodes")
		if !strings.Contains(err.Error(), originName) {
			t.Errorf("%s: %v, which does not say what is in the way", k.name, err)
		}
	}
}

package zklock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// A fenceRecord maps czxids to fences. It is kept in ZooKeeper, below Root.
//
// A czxid alone is not a lasting fence: a new ensemble on empty disks counts from 0, and a store that has seen the
// fences of the old ensemble would refuse every write. The sum of a czxid and a constant is not one either: the upper
// half of a czxid counts elections, so each election adds 2^32, which is more than the clock advances between
// elections. So there is one base for each epoch of leadership:
//
//	fence = base of the epoch + 64 * transactions in the epoch
//
// in microseconds since 1970. The session that creates the first node in an epoch writes the base into ZooKeeper, and
// the base never changes. It is chosen so that this node's fence is the server's clock or, if the clock is behind,
// larger than all fences before. For that the record has a mark: all fences so far are below the mark. The mark is
// raised before a fence at or above it is used, and the next epoch begins at the mark.
//
// Every node is created on the condition that the record still has the version that its session has read, in the same
// transaction. So a session uses its copy of the record without a round trip. If the record was changed, or lost with
// all other data, the next create fails.
//
// Within an ensemble fences grow, whatever the clocks do. The fences of a new ensemble are larger than those of a lost
// one if the clock of its server is ahead of them. It is not if it was set back, or if the old ensemble made more than
// 15,625 transactions a second all the time since its last election. Until the year 2255 fences stay below 2^53, the
// largest integer that a double can hold (JSON in a browser).
//
// Not covered: a single server (no ensemble, no elections) whose disk was restored from an old copy. It continues in
// the same epoch with numbers that it has used before. Delete %origin in this case.
type fenceRecord struct {
	path    string // of the record
	version int32  // of the record
	Epoch   int64  `json:"epoch"` // of leadership, the last in which a lock was requested; 0 on a single server
	Base    uint64 `json:"base"`  // of Epoch; 0: none yet
	Mark    uint64 `json:"mark"`
}

const (
	// originName is a node below Root. No key is mapped to it, because escape writes %XX. Its data is the name of its
	// only child, the record. Every record has a new name: after a deletion the versions of a node with the same name
	// would begin at 0 again.
	originName = "%origin"
	// markLead is how far the mark is raised above the fence that needs it. So the record is written once for 78,000
	// transactions of the ensemble. After an election the fences are ahead of the clock by at most markLead.
	markLead = 5_000_000
)

// errRecordChanged means that a node was not created, because the record of fences has changed since it was read.
var errRecordChanged = fmt.Errorf("%w: the record of fences has changed", errAgain)

func split(czxid int64) (epoch, count int64) { return czxid >> 32, czxid & (1<<32 - 1) }

// fence returns the fence of a node. ok is false if the node has none by this record: its epoch is another, or the
// number is not below the mark.
func (r *fenceRecord) fence(czxid int64) (f lock.Fence, ok bool) {
	epoch, count := split(czxid)
	number := r.Base + uint64(count)*driver.FenceRange
	if r.Base == 0 || r.Epoch != epoch || number+driver.FenceRange > r.Mark {
		return lock.NoFence, false
	}
	return lock.Fence(number), true
}

// extended returns a copy of r that covers a node created at clock, in milliseconds. ok is false if the node's epoch
// is over, because larger numbers belong to the next epoch.
func (r *fenceRecord) extended(czxid, clock int64) (next *fenceRecord, ok bool) {
	epoch, count := split(czxid)
	extended := *r
	if r.Base == 0 || r.Epoch < epoch {
		extended.Epoch, extended.Base = epoch, max(r.Mark, uint64(max(1, clock*1000-count*driver.FenceRange)))
	}
	extended.Mark = max(r.Mark, extended.Base+uint64(count+1)*driver.FenceRange+markLead)
	return &extended, extended.Epoch == epoch
}

// fenceRecord returns this session's copy of the record. It reads the record, in two round trips, once in a session and
// again after each change.
func (g *generation) fenceRecord(ctx context.Context) (*fenceRecord, error) {
	for range tries {
		if r := g.record.Load(); r != nil {
			return r, nil
		}
		r, err := g.readRecord(ctx)
		if !errors.Is(err, zk.ErrNoNode) {
			return r, err
		}
		if err := g.makeRecord(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %s has lost its child", errNoLock, g.origin())
}

func (g *generation) origin() string { return g.s.config.Root + "/" + originName }

func (g *generation) makeRecord(ctx context.Context) error {
	if err := g.makeFolder(ctx, g.s.config.Root); err != nil {
		return err
	}
	name := uuid.NewString()
	_, err := retry(ctx, g, g.origin(), "create", func() ([]zk.MultiResponse, error) {
		return g.conn.Multi(
			&zk.CreateRequest{Path: g.origin(), Data: []byte(name), Acl: g.s.acl()},
			&zk.CreateRequest{Path: g.origin() + "/" + name, Acl: g.s.acl()},
		)
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// readRecord reads the record and keeps the copy. The error is zk.ErrNoNode if there is none yet.
func (g *generation) readRecord(ctx context.Context) (*fenceRecord, error) {
	origin, err := g.get(ctx, g.origin())
	if err != nil {
		return nil, err
	}
	name := string(origin.data)
	if uuid.Validate(name) != nil {
		return nil, fmt.Errorf("%w: %s", errNoLock, g.origin())
	}
	r := &fenceRecord{path: g.origin() + "/" + name}
	record, err := g.get(ctx, r.path)
	if err != nil {
		return nil, err
	}
	r.version = record.stat.Version
	if len(record.data) > 0 { // a record from makeRecord has no epoch yet
		if err := json.Unmarshal(record.data, r); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errNoLock, r.path, err)
		}
	}
	g.record.Store(r)
	return r, nil
}

// fence returns the fence of a node that was created at clock, in milliseconds. It takes a round trip only for the
// first node of an epoch and of every 78,000 transactions or so, and two more if other sessions do the same at the same
// time. The error is errAgain if the node is older than a fence that another holder has.
func (g *generation) fence(ctx context.Context, czxid, clock int64) (lock.Fence, error) {
	for range tries {
		r, err := g.fenceRecord(ctx)
		if err != nil {
			return lock.NoFence, err
		}
		if fence, ok := r.fence(czxid); ok {
			return fence, nil
		}
		next, ok := r.extended(czxid, clock)
		if !ok {
			return lock.NoFence, errAgain
		}
		data, _ := json.Marshal(next) // numbers only, so it cannot fail
		set := func() (*zk.Stat, error) { return g.conn.Set(r.path, data, r.version) }
		stat, err := retry(ctx, g, r.path, "write", set)
		switch {
		case err == nil:
			next.version = stat.Version
			g.record.CompareAndSwap(r, next)
			continue
		case !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode):
			return lock.NoFence, err
		}
		g.record.CompareAndSwap(r, nil)
	}
	return lock.NoFence, errAgain
}

// fenceAfter returns a fence that is larger than the fences of a node and of those before it, and not larger than any
// later fence.
func (g *generation) fenceAfter(ctx context.Context, n node) (lock.Fence, error) {
	fence, err := g.fence(ctx, n.czxid, n.clock)
	if err == nil {
		return fence + driver.FenceRange, nil
	}
	r, failed := g.fenceRecord(ctx)
	if epoch, _ := split(n.czxid); errors.Is(err, errAgain) && failed == nil && epoch < r.Epoch {
		return lock.Fence(r.Base), nil
	}
	return lock.NoFence, err
}

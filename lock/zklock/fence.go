package zklock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/lock"
)

// A fenceRecord turns czxids into fences. It is kept in ZooKeeper, below Root.
//
// A czxid alone is no fence that lasts: an ensemble that is built anew, on empty disks, counts from 0, and a store that
// remembers the fences of the old one refuses every write from then on. Nor is the sum of a czxid and a constant: the
// upper half of a czxid counts elections, so each election is worth 2^32 transactions, and no clock could keep up with
// that. Hence one number for each epoch of leadership:
//
//	fence = base of the epoch + 64 * transactions in the epoch
//
// in microseconds since 1970. The base is written into ZooKeeper by whoever first makes a node in the epoch, and never
// changes. It is chosen such that this node's fence is the server's clock or, if that is behind, larger than all fences
// before. For that the record has a mark, which is raised before a fence at or above it is used: every fence so far is
// below the mark, and the next epoch begins there.
//
// Every node of ours is created on the condition that the record still has the version that its maker has read, in the
// same transaction. So a session may use the record that it has read for as long as it lives, for no round trip: if the
// record was changed, or is gone with all the rest, the next create finds out.
//
// Within an ensemble fences grow whatever the clocks do. The fences of a new ensemble are larger than those of the
// one that was lost if the clock of its server is ahead of them. That fails if the clock was set back, too, or if the
// old ensemble had made more than 15,625 transactions a second all the time since its last election. Fences stay
// below 2^53, the limit where a number becomes a double (JSON in a browser), until the year 2255.
//
// Not covered: one server alone (no ensemble, no elections) whose disk was set back to an old copy. It goes on in the
// same epoch with numbers that it has given before; delete %origin then.
type fenceRecord struct {
	path    string // of the record
	version int32  // of the record
	Mark    uint64 `json:"mark"`
	Terms   []term `json:"terms"` // the oldest first, and the last maxTerms of them
}

// A term is an epoch of leadership in which a lock was asked for. A server alone is in epoch 0 for ever.
type term struct {
	Epoch int64  `json:"epoch"`
	Base  uint64 `json:"base"`
}

const (
	// originName is a node below Root. No key is mapped to it, because escape writes %XX. It holds the name of its only
	// child, the record. No other record has that name: one that is made again, after somebody deleted it, would begin
	// with the same versions.
	originName = "%origin"
	// fenceRange leaves room between fences, for the holders of lock.HandOver.
	fenceRange = 64
	// markLead is how far the mark is moved beyond the fence that needs it: one write for 78,000 transactions of the
	// ensemble. An election puts the fences ahead of the clock by that much at most.
	markLead = 5_000_000
	// maxTerms bounds the record. A waiter that was there before so many elections queues up again.
	maxTerms = 64
)

// errRecordChanged is for a node that was not made because the record of fences is not what its maker has read.
var errRecordChanged = fmt.Errorf("%w: the record of fences has changed", errAgain)

func split(czxid int64) (epoch, count int64) { return czxid >> 32, czxid & (1<<32 - 1) }

// limit returns what the fences of the term at index i stay below.
func (r *fenceRecord) limit(i int) uint64 {
	if i+1 < len(r.Terms) {
		return r.Terms[i+1].Base
	}
	return r.Mark
}

// fence returns the fence of a node. ok is false if it may not be used, because no mark covers it.
func (r *fenceRecord) fence(czxid int64) (f lock.Fence, ok bool) {
	epoch, count := split(czxid)
	i := slices.IndexFunc(r.Terms, func(t term) bool { return t.Epoch == epoch })
	if i < 0 {
		return lock.NoFence, false
	}
	number := r.Terms[i].Base + uint64(count)*fenceRange
	return lock.Fence(number), number+fenceRange <= r.limit(i)
}

// extended returns r made to cover a node that was created at clock, in milliseconds. ok is false if that cannot be:
// the node's epoch is over, and the numbers after it belong to another.
func (r *fenceRecord) extended(czxid, clock int64) (next *fenceRecord, ok bool) {
	epoch, count := split(czxid)
	next = &fenceRecord{path: r.path, version: r.version, Mark: r.Mark, Terms: slices.Clone(r.Terms)}
	last := len(next.Terms) - 1
	switch {
	case last >= 0 && next.Terms[last].Epoch > epoch:
		return nil, false
	case last < 0 || next.Terms[last].Epoch < epoch:
		base := max(next.Mark, uint64(max(0, clock*1000-count*fenceRange)))
		if last < 0 {
			// Programs before this record took czxid * 64 for the fence. Theirs are smaller as long as the clock is
			// right.
			base = max(base, uint64(epoch)<<32*fenceRange)
		}
		next.Terms = append(next.Terms, term{epoch, base})
		next.Terms = next.Terms[max(0, len(next.Terms)-maxTerms):]
	}
	next.Mark = max(next.Mark, next.Terms[len(next.Terms)-1].Base+uint64(count+1)*fenceRange+markLead)
	return next, true
}

// unchanged returns the condition on which a node is created: the record is still r.
func (r *fenceRecord) unchanged() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: r.path, Version: r.version}
}

// changedOr returns the error of a transaction: errRecordChanged if its request at index i, which is unchanged, failed,
// and err otherwise.
func changedOr(done []zk.MultiResponse, i int, err error) error {
	if len(done) > i && (errors.Is(done[i].Error, zk.ErrNoNode) || errors.Is(done[i].Error, zk.ErrBadVersion)) {
		return errRecordChanged
	}
	return err
}

func (g *generation) origin() string { return g.s.config.Root + "/" + originName }

// fenceRecord returns the record that was read last, or reads it now, which takes two round trips: once in a session,
// and after each change.
func (g *generation) fenceRecord(ctx context.Context) (*fenceRecord, error) {
	if r := g.record.Load(); r != nil {
		return r, nil
	}
	select {
	case g.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-g.reading }()
	if r := g.record.Load(); r != nil {
		return r, nil
	}
	for range tries {
		r, err := g.readRecord(ctx)
		if err == nil {
			g.record.Store(r)
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return r, err
		}
		if g.s.config.Root != "" {
			if err := g.makeFolder(ctx, g.s.config.Root); err != nil {
				return nil, err
			}
		}
		if err := g.makeRecord(ctx); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %s has lost its child", errNoLock, g.origin())
}

// makeRecord makes an empty record, unless there is one.
func (g *generation) makeRecord(ctx context.Context) error {
	_, err := retry(ctx, g, func() ([]zk.MultiResponse, error) {
		name := uuid.NewString()
		return g.conn.Multi(
			&zk.CreateRequest{Path: g.origin(), Data: []byte(name), Acl: everyone()},
			&zk.CreateRequest{Path: g.origin() + "/" + name, Acl: everyone()},
		)
	})
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// readRecord fails with zk.ErrNoNode where no lock was ever asked for.
func (g *generation) readRecord(ctx context.Context) (*fenceRecord, error) {
	name, _, err := g.get(ctx, g.origin())
	if err != nil {
		return nil, err
	}
	if uuid.Validate(string(name)) != nil {
		return nil, fmt.Errorf("%w: %s", errNoLock, g.origin())
	}
	r := &fenceRecord{path: g.origin() + "/" + string(name)}
	data, stat, err := g.get(ctx, r.path)
	if err != nil {
		return nil, err
	}
	r.version = stat.Version
	if len(data) == 0 {
		return r, nil // as makeRecord makes it
	}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errNoLock, r.path, err)
	}
	return r, nil
}

// forgetRecord drops a record that is not the one in ZooKeeper any more.
func (g *generation) forgetRecord(r *fenceRecord) { g.record.CompareAndSwap(r, nil) }

// fence returns the fence of a node that was created at clock, in milliseconds. It asks the server only for the first
// node of an epoch or of some 78,000 transactions. That costs one round trip, or two more where others do it at the
// same time. The error is errAgain if the node is older than fences that others have.
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
		data, err := json.Marshal(next)
		if err != nil {
			return lock.NoFence, err
		}
		stat, err := retry(ctx, g, func() (*zk.Stat, error) { return g.conn.Set(r.path, data, r.version) })
		g.forgetRecord(r)
		switch {
		case err == nil:
			next.version = stat.Version
			g.record.CompareAndSwap(nil, next)
		case !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode):
			return lock.NoFence, err
		}
	}
	return lock.NoFence, errAgain
}

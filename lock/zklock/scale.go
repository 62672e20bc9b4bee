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

// A scale turns czxids into fences.
//
// A czxid alone is no fence that lasts: an ensemble that is built anew, on empty disks, counts from 0, and a store
// that remembers the fences of the one before refuses every write from then on. Nor is a czxid and a constant: its
// upper half counts elections, so that each is worth 2^32 transactions, and no clock could keep up with them. Hence
// one number for each epoch of leadership:
//
//	fence = base of the epoch + 64 * transactions in the epoch
//
// in microseconds since 1970. The base is written into ZooKeeper by whoever first makes a node in the epoch, and
// never changes: such that this node's fence is the server's clock, or, if that is behind, larger than all fences
// before. For that the record has a mark, which is raised before a fence at or above it is used: every fence so far
// is below the mark, and the next epoch begins there.
//
// Every node of ours is created on the condition that the record is still of the version that its maker has read, in
// the same transaction. So a scale can be kept for as long as the session lives without a look at it, and costs no
// round trip: a record that is another, or gone with all the rest, is found out at the next create.
//
// Within an ensemble fences grow whatever the clocks do. The fences of a new ensemble are larger than those of the
// one that was lost if the clock of its server is ahead of them: that fails if the clock was set back, too, or if the
// old one had made more than 15,625 transactions a second all the time since its last election. They stay below 2^53,
// to which a number must stay where it becomes a double (JSON in a browser), until the year 2255.
//
// Not covered: one server alone (no ensemble, no elections) whose disk was set back to an old copy. It goes on in the
// same epoch with numbers that it has given before; delete %origin then.
type scale struct {
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
	// originName is below Root. No key is mapped to it: escape writes %XX. It holds the name of its only child, the
	// record, which no other has: a record that is made again, after somebody deleted it, has the versions of the
	// first one.
	originName = "%origin"
	// span leaves room between fences, for the holders of lock.HandOver.
	span = 64
	// ahead is how far the mark is moved beyond the fence that needs it: one write for 78,000 transactions of the
	// ensemble. An election puts the fences ahead of the clock by that much at most.
	ahead = 5_000_000
	// maxTerms bounds the record. A waiter who was there before so many elections queues up again.
	maxTerms = 64
)

// errScale is for a node that was not made because the record of fences is not what its maker has read.
var errScale = fmt.Errorf("%w: the record of fences has changed", errAgain)

func split(czxid int64) (epoch, count int64) { return czxid >> 32, czxid & (1<<32 - 1) }

// limit is what the fences of the term at index i stay below.
func (s *scale) limit(i int) uint64 {
	if i+1 < len(s.Terms) {
		return s.Terms[i+1].Base
	}
	return s.Mark
}

// of is the fence of a node. ok is false if that may not be used, as no mark covers it.
func (s *scale) of(czxid int64) (f lock.Fence, ok bool) {
	epoch, count := split(czxid)
	i := slices.IndexFunc(s.Terms, func(t term) bool { return t.Epoch == epoch })
	if i < 0 {
		return lock.NoFence, false
	}
	number := s.Terms[i].Base + uint64(count)*span
	return lock.Fence(number), number+span <= s.limit(i)
}

// reach is s made to cover a node that was created at clock, in milliseconds. ok is false if that cannot be: its
// epoch is over, and the numbers after it are another's.
func (s *scale) reach(czxid, clock int64) (next *scale, ok bool) {
	epoch, count := split(czxid)
	next = &scale{path: s.path, version: s.version, Mark: s.Mark, Terms: slices.Clone(s.Terms)}
	last := len(next.Terms) - 1
	switch {
	case last >= 0 && next.Terms[last].Epoch > epoch:
		return nil, false
	case last < 0 || next.Terms[last].Epoch < epoch:
		base := max(next.Mark, uint64(max(0, clock*1000-count*span)))
		if last < 0 {
			// Programs before this record took czxid * span for the fence. Theirs are smaller as long as the clock is
			// right.
			base = max(base, uint64(epoch)<<32*span)
		}
		next.Terms = append(next.Terms, term{epoch, base})
		next.Terms = next.Terms[max(0, len(next.Terms)-maxTerms):]
	}
	next.Mark = max(next.Mark, next.Terms[len(next.Terms)-1].Base+uint64(count+1)*span+ahead)
	return next, true
}

// above is a fence that is larger than any that was used up to the node, and not larger than any after it, where of
// has none.
func (s *scale) above(czxid int64) lock.Fence {
	epoch, _ := split(czxid)
	for _, t := range s.Terms {
		if t.Epoch > epoch {
			return lock.Fence(t.Base)
		}
	}
	return lock.Fence(s.Mark)
}

func (g *generation) origin() string { return g.s.config.Root + "/" + originName }

// scale is the scale that was read last, or is read now, which takes two round trips: once in a session, and after
// each change. See read.
func (g *generation) scale(ctx context.Context) (*scale, error) {
	if s := g.known.Load(); s != nil {
		return s, nil
	}
	select {
	case g.reading <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-g.reading }()
	if s := g.known.Load(); s != nil {
		return s, nil
	}
	for range tries {
		s, err := g.readScale(ctx)
		if err == nil {
			g.known.Store(s)
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return s, err
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
	_, err := read(ctx, g, func() ([]zk.MultiResponse, error) {
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

// readScale fails with zk.ErrNoNode where no lock was ever asked for.
func (g *generation) readScale(ctx context.Context) (*scale, error) {
	name, _, err := g.get(ctx, g.origin())
	if err != nil {
		return nil, err
	}
	if uuid.Validate(string(name)) != nil {
		return nil, fmt.Errorf("%w: %s", errNoLock, g.origin())
	}
	s := &scale{path: g.origin() + "/" + string(name)}
	data, stat, err := g.get(ctx, s.path)
	if err != nil {
		return nil, err
	}
	s.version = stat.Version
	if len(data) == 0 {
		return s, nil // as it is created
	}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errNoLock, s.path, err)
	}
	return s, nil
}

// forgetScale is for a scale that is not the record's any more.
func (g *generation) forgetScale(s *scale) { g.known.CompareAndSwap(s, nil) }

// number is the fence of a node that was created at clock, in milliseconds. It asks nobody, but for the first node of
// an epoch or of some 78,000 transactions: that costs one round trip, and two for each of those who are not the
// first. The error is errAgain if the node is older than fences that others have. See read.
func (g *generation) number(ctx context.Context, czxid, clock int64) (lock.Fence, error) {
	for range tries {
		s, err := g.scale(ctx)
		if err != nil {
			return lock.NoFence, err
		}
		if fence, ok := s.of(czxid); ok {
			return fence, nil
		}
		next, ok := s.reach(czxid, clock)
		if !ok {
			return lock.NoFence, errAgain
		}
		data, err := json.Marshal(next)
		if err != nil {
			return lock.NoFence, err
		}
		stat, err := read(ctx, g, func() (*zk.Stat, error) { return g.conn.Set(s.path, data, s.version) })
		g.forgetScale(s)
		switch {
		case err == nil:
			next.version = stat.Version
			g.known.CompareAndSwap(nil, next)
		case !errors.Is(err, zk.ErrBadVersion) && !errors.Is(err, zk.ErrNoNode):
			return lock.NoFence, err
		}
	}
	return lock.NoFence, errAgain
}

// fences fills in the fences of others, as far as they have any yet. It changes nothing on the server. See read.
func (g *generation) fences(ctx context.Context, all []Contender) error {
	fill := func(s *scale) (whole bool) {
		whole = s != nil
		for i := range all {
			if s != nil {
				fence, ok := s.of(all[i].czxid)
				if whole = whole && ok; ok {
					all[i].Fence = fence
				}
			}
		}
		return whole
	}
	known := g.known.Load()
	if fill(known) {
		return nil
	}
	now, err := g.readScale(ctx)
	if err != nil {
		return unlessGone(err)
	}
	g.known.CompareAndSwap(known, now)
	fill(now)
	return nil
}

// passed is a fence that is larger than the one of a node and those before, and not larger than any to come. See read.
func (g *generation) passed(ctx context.Context, czxid, clock int64) (lock.Fence, error) {
	fence, err := g.number(ctx, czxid, clock)
	if !errors.Is(err, errAgain) {
		return fence + span, err
	}
	s, err := g.scale(ctx)
	if err != nil {
		return lock.NoFence, err
	}
	return s.above(czxid), nil
}

// guard is the condition on which a node is created.
func (s *scale) guard() *zk.CheckVersionRequest {
	return &zk.CheckVersionRequest{Path: s.path, Version: s.version}
}

// guarded is the error of a transaction: errScale if it was the guard's, which is at that place in it.
func guarded(done []zk.MultiResponse, at int, err error) error {
	if len(done) > at && (errors.Is(done[at].Error, zk.ErrNoNode) || errors.Is(done[at].Error, zk.ErrBadVersion)) {
		return errScale
	}
	return err
}

package zklock

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// orphans has nodes that could not be deleted in time, because the connection was broken. While its session lives,
// such a node would stay at the head of its queue, and all contenders would wait for it (CURATOR-678).
type orphans struct {
	mu    sync.Mutex
	all   []orphan
	added chan struct{}
}

// An orphan is a node to be deleted. If the request to create the node was not answered, only its folder and guid are
// known.
type orphan struct {
	recipe recipe
	node   node
	// until is the time when the search for the guid ends if no node is found. Before that, the request to create the
	// node may still arrive. After that its session has expired, and a node would be removed with the session.
	until time.Time
}

func (o *orphans) add(added orphan) {
	o.mu.Lock()
	o.all = append(o.all, added)
	o.mu.Unlock()
	select {
	case o.added <- struct{}{}:
	default:
	}
}

// maxOrphans limits the orphans: with so many of them no lock requests a key, so that they do not become more while a
// connection breaks again and again. Leases that are held then may still add one each.
const maxOrphans = 4000

func (o *orphans) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all)
}

func (o *orphans) list() []orphan {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.all)
}

func (o *orphans) drop(gone orphan) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.all, gone); i >= 0 {
		o.all = slices.Delete(o.all, i, i+1)
	}
}

// deleteNode deletes a node of ours. The error is errNodeGone if the node did not exist any more. After any other error
// the node is an orphan, which is deleted in the background.
func (s *Session) deleteNode(ctx context.Context, r recipe, own node) error {
	g, linked := s.now()
	err := errOutage
	if linked {
		err = r.delete(ctx, g, own)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, zk.ErrNoNode):
		return errNodeGone
	case s.ctx.Err() != nil:
		return errClosed
	}
	s.orphans.add(orphan{recipe: r, node: own})
	if answered(err) {
		return s.refused(err)
	}
	return s.noConnection()
}

// deleteOrphans deletes orphans until Close. It may do so in any generation: names contain a guid, so a node of this
// name is ours, whichever session owns it.
func (s *Session) deleteOrphans() {
	for {
		select {
		case <-s.orphans.added:
		case <-s.ctx.Done():
			return
		}
		for wait := 25 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			all := s.orphans.list()
			if len(all) == 0 {
				break
			}
			for _, o := range all {
				if g, err := s.usable(s.ctx); err == nil && s.deleteOrphan(g, o) {
					s.orphans.drop(o)
				}
			}
			select {
			case <-time.After(wait/2 + rand.N(wait/2)):
			case <-s.ctx.Done():
				return
			}
		}
	}
}

// deleteOrphan tries to delete o, and reports whether o does not exist and never will.
func (s *Session) deleteOrphan(g *generation, o orphan) bool {
	ctx, cancel := context.WithTimeout(g.over, lock.ReleaseTimeout)
	defer cancel()
	n, expired := o.node, true
	if n.name == "" {
		// The clock is read before the search: an absent node is final only if the search began after until.
		expired = time.Now().After(o.until)
		found, err := ask(ctx, g, 0, func() (node, error) { return o.recipe.find(ctx, g, n.dir, n.guid) }, nil)
		if err != nil {
			return errors.Is(err, zk.ErrNoNode) && expired
		}
		n = found
	}
	err := unlessGone(o.recipe.delete(ctx, g, n))
	if err != nil && answered(err) {
		s.log.Error("zookeeper lock node cannot be deleted", "path", n.path(), "error", err)
	}
	return answered(err)
}

package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// An orphan is a node that could not be deleted in time, because the connection was broken. While its session lives,
// such a node would stay at the head of its queue, and all contenders would wait for it (CURATOR-678). So Session's
// life deletes it in the background. It may do so in any generation: a recipe deletes no other node.
type orphan struct {
	recipe recipe
	node   node // without a name if the request to create it was not answered
	// until is the time when the search for the guid ends if no node is found. Before that, the request to create the
	// node may still arrive. After that its session has expired, and a node would be removed with the session.
	until time.Time
}

// maxOrphans limits the orphans: with so many of them no lock requests a key, so that they do not become more while a
// connection breaks again and again. Leases that are held then may still add one each.
const maxOrphans = 4000

// release deletes a node of ours. The error is errNodeGone if the node did not exist any more. After any other error
// the node is an orphan.
func (s *Session) release(ctx context.Context, r recipe, own node) error {
	g := s.current.Load()
	err := errOutage
	if g.now().usable() {
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
	s.sweep(orphan{recipe: r, node: own})
	if answered(err) {
		return s.refused(err)
	}
	return s.noConnection()
}

// withdraw deletes the node of an attempt that gave up, at once if the server answers, otherwise in the background.
func (a *attempt) withdraw(own node) {
	ctx, cancel := context.WithTimeout(context.Background(), lock.ReleaseTimeout)
	defer cancel()
	_ = a.g.s.release(ctx, a.recipe, own) // after an error the node is an orphan
}

// searchLater searches in the background for the node that a create without a reply may have made.
func (a *attempt) searchLater(guid string) {
	until := time.Now().Add(a.g.now().timeout)
	a.g.s.sweep(orphan{recipe: a.recipe, node: node{dir: a.dir, guid: guid}, until: until})
}

// sweep deletes o in the background, for as long as the Session is open.
func (s *Session) sweep(o orphan) {
	s.orphans.Add(1)
	s.life.Repeat(time.Now().Add(driver.Forever), func(ctx context.Context) (done bool) {
		g, err := s.usable(ctx)
		if err != nil || !g.deleteOrphan(ctx, o) {
			return false
		}
		s.orphans.Add(-1)
		return true
	})
}

// deleteOrphan tries to delete o, and reports whether o does not exist and never will.
func (g *generation) deleteOrphan(ctx context.Context, o orphan) bool {
	n := o.node
	if n.name == "" {
		// The clock is read before the search: an absent node is final only if the search began after until.
		expired := time.Now().After(o.until)
		found, err := o.recipe.find(ctx, g, n.dir, n.guid)
		if err != nil {
			return errors.Is(err, zk.ErrNoNode) && expired
		}
		n = found
	}
	err := unlessGone(o.recipe.delete(ctx, g, n))
	if err != nil && answered(err) {
		g.s.log.Error("zookeeper lock node cannot be deleted", "path", n.path(), "error", err)
	}
	return answered(err)
}

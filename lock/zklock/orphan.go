package zklock

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

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

// sweep deletes o in the background, for as long as the Session is open.
func (s *Session) sweep(o orphan) {
	s.life.Repeat(time.Now().Add(driver.Forever), func(ctx context.Context) (done bool) {
		g, err := s.usable(ctx)
		return err == nil && g.deleteOrphan(ctx, o)
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

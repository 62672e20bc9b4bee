package redislock

import (
	"context"
	"errors"
	"time"

	"example.com/stock/internal/redisscript"
	"example.com/stock/lock"
)

// An orphan is a key that a Redlock may have set on a node, and whose deletion the node has not confirmed. It expires
// by itself at until.
type orphan struct {
	name, value string
	until       time.Time
	answers     int // answers without a key that are still needed to drop the orphan; see cleanup.undo
}

// addOrphan deletes the orphan as soon as the node answers. One goroutine cleans up a node, however long its list is.
// After a clean-up without a reply the list stops growing, because no lock is requested from the node until it
// answers.
func (n *node) addOrphan(c *cleanup, release *redisscript.Script, o orphan) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.orphans = append(n.orphans, o)
	if !n.cleaning {
		n.cleaning = true
		c.repeat(
			func(ctx context.Context) error { return n.deleteOrphans(ctx, release) },
			time.Now().Add(lock.Forever))
	}
}

// deleteOrphans deletes the orphans of a node. It returns an ErrDown if some could not be deleted.
func (n *node) deleteOrphans(ctx context.Context, release *redisscript.Script) error {
	if n.silent.Load() {
		// A ping is needed because all orphans may have expired, and then no other request would show that the node
		// answers again.
		if err := n.client.Ping(ctx).Err(); err != nil {
			return lock.Down("ask "+n.addr, err)
		}
		n.silent.Store(false)
	}
	for {
		n.mu.Lock()
		list := n.orphans
		n.orphans = nil
		n.cleaning = len(list) > 0
		n.mu.Unlock()
		if len(list) == 0 {
			return nil
		}
		var again []orphan
		for i, o := range list {
			if time.Now().After(o.until) {
				continue
			}
			switch err := ownership(run(ctx, n.client, release, []string{o.name}, o.value).Int()); {
			case errors.Is(err, lock.ErrDown):
				n.silent.Store(true)
				n.putBack(append(again, list[i:]...))
				return err
			case err != nil && o.answers > 1:
				o.answers--
				again = append(again, o)
			}
		}
		if len(again) > 0 {
			n.putBack(again)
			return errLookAgain
		}
	}
}

func (n *node) putBack(list []orphan) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.orphans = append(list, n.orphans...)
}

package zklock

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// debris is nodes that must go and could not be deleted when that was due, because the connection was broken. A live session would
// keep such a node at the head of its queue for ever, where everybody waits for it (CURATOR-678: a failed delete must not
// be forgotten).
type debris struct {
	mu    sync.Mutex
	left  []remnant
	found chan struct{}
}

// A remnant is a node or, if we were never told what became of the request to create it, its folder and guid.
type remnant struct {
	form form
	node node
	// until bounds the search for a guid that is not there: the request to create it may still be on its way, but not for
	// longer than its session can live without us. What might come after that is the server's to expire.
	until time.Time
}

func (d *debris) add(r remnant) {
	d.mu.Lock()
	d.left = append(d.left, r)
	d.mu.Unlock()
	select {
	case d.found <- struct{}{}:
	default:
	}
}

func (d *debris) list() []remnant {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]remnant(nil), d.left...)
}

func (d *debris) drop(gone remnant) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, r := range d.left {
		if r == gone {
			d.left = append(d.left[:i], d.left[i+1:]...)
			return
		}
	}
}

// sweep deletes debris until Close, in any generation: names hold a guid, so a node of that name is ours whichever session it is of.
func (s *Session) sweep() {
	for {
		select {
		case <-s.debris.found:
		case <-s.ctx.Done():
			return
		}
		for wait := 25 * time.Millisecond; ; wait = min(2*wait, time.Second) {
			left := s.debris.list()
			if len(left) == 0 {
				break
			}
			for _, r := range left {
				if g, err := s.usable(s.ctx); err == nil && s.clear(g, r) {
					s.debris.drop(r)
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

// clear reports whether r is gone for good.
func (s *Session) clear(g *generation, r remnant) bool {
	ctx, cancel := context.WithTimeout(g.over, lock.ReleaseTimeout)
	defer cancel()
	n, expired := r.node, true
	if n.name == "" {
		// The search begins after now: what it does not find then cannot come after until.
		expired = time.Now().After(r.until)
		found, err := ask(ctx, g, 0, func() (node, error) { return r.form.find(ctx, g, n.dir, n.guid) }, nil)
		if err != nil {
			return errors.Is(err, zk.ErrNoNode) && expired
		}
		n = found
	}
	err := r.form.delete(ctx, g, n)
	if err != nil && answered(err) {
		s.log.Error("zookeeper lock node cannot be deleted", "path", n.path(), "error", err)
	}
	return answered(err)
}

// remove deletes a node of ours. It tries for as long as ctx lives, if there is a connection; then sweep goes on, and the error
// says so.
func (s *Session) remove(ctx context.Context, f form, own node) error {
	s.mu.Lock()
	g, linked := s.current, s.current.linked
	s.mu.Unlock()
	err := errOutage
	if linked {
		if err = f.delete(ctx, g, own); err == nil {
			return nil
		}
	}
	if s.ctx.Err() != nil {
		return errClosed
	}
	s.debris.add(remnant{form: f, node: own})
	if answered(err) {
		return s.refused(err)
	}
	return errNoConnection
}

package zklock

import (
	"context"
	"math/rand/v2"
	"strings"
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

// A remnant is a node by its path or, if we were never told what the server made of its name, by its guid.
type remnant struct {
	path string
	dir  string
	guid string
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
	path, expired := r.path, false
	if path == "" {
		names, err := ask(ctx, g, 0, func() ([]string, error) { return g.children(ctx, r.dir) }, nil)
		if !answered(err) {
			return false
		}
		// The list was asked for before now: what it does not show then cannot come after until.
		expired = time.Now().After(r.until)
		for _, name := range names {
			if strings.HasPrefix(name, protected+r.guid) {
				path = r.dir + "/" + name
			}
		}
	}
	if path == "" {
		return expired
	}
	err := g.delete(ctx, path)
	if err != nil && answered(err) && err != zk.ErrNoNode {
		s.log.Error("zookeeper lock node cannot be deleted", "path", path, "error", err)
	}
	return answered(err)
}

// delete asks once, for as long as ctx lives.
func (g *generation) delete(ctx context.Context, path string) error {
	_, err := ask(ctx, g, 0, func() (struct{}, error) { return struct{}{}, g.conn.Delete(path, -1) }, nil)
	return err
}

// remove deletes a node of ours. It tries for as long as ctx lives, if there is a connection; then sweep goes on, and the error
// says so.
func (s *Session) remove(ctx context.Context, path string) error {
	s.mu.Lock()
	g, linked := s.current, s.current.linked
	s.mu.Unlock()
	if linked {
		if err := g.delete(ctx, path); err == nil || err == zk.ErrNoNode {
			return nil
		}
	}
	if s.ctx.Err() != nil {
		return errClosed
	}
	s.debris.add(remnant{path: path})
	return errNoConnection
}

package zklock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// A watch reports one change of a node. Waiters for the same node share a watch. The library cannot remove a watch: if
// a waiter gives up, its watch stays until the node changes. With a watch per waiter, watches would pile up when many
// short waits follow each other during one long hold.
//
// A watch counts on one link. The library sets its watches again on the next one, but the locks do not rely on that:
// the library may then ask for changes since a transaction that it has not seen all of (go-zookeeper/zk#35). So a
// caller first gets the channel of Session.changed, then reads the nodes and sets a watch, and when the channel is
// closed it does so again.
type watch struct {
	content               // of the node, when the watch was set
	changed chan struct{} // closed when the node has changed; then deleted is valid
	deleted bool
}

// watch returns the watch of a node. If there is none on the current link, it sets one, in one round trip. It uses
// getData, because exists would leave a permanent watch on a node that does not exist. The error is zk.ErrNoNode if the
// node does not exist.
func (g *generation) watch(ctx context.Context, path string) (*watch, error) {
	g.mu.Lock()
	var w *watch
	if g.link != nil {
		w = g.link.watches[path]
	}
	g.mu.Unlock()
	if w != nil {
		return w, nil
	}
	return retry(ctx, g, path, "read", func() (*watch, error) {
		l := g.now().link
		data, stat, events, err := g.conn.GetW(path)
		if err != nil {
			return nil, err
		}
		w := &watch{content: content{data, stat}, changed: make(chan struct{})}
		g.mu.Lock()
		defer g.mu.Unlock()
		if l != nil && l == g.link { // then the answer came on l
			l.watches[path] = w
		}
		g.requests.Go(func() { g.follow(l, path, w, events) })
		return w, nil
	})
}

// follow waits for the event of a watch. It ends with the generation, when the library closes events.
func (g *generation) follow(l *link, path string, w *watch, events <-chan zk.Event) {
	event := <-events
	g.mu.Lock()
	if l != nil && l.watches[path] == w {
		delete(l.watches, path)
	}
	g.mu.Unlock()
	w.deleted = event.Type == zk.EventNodeDeleted
	close(w.changed)
}

// awaitChange waits until the watched node changes, until reconnected is closed, or until ctx ends. Only the end of ctx
// is an error. It calls woken if the node changed.
func (w *watch) awaitChange(ctx context.Context, reconnected <-chan struct{}, woken func()) (deleted bool, err error) {
	select {
	case <-w.changed:
		woken()
		return w.deleted, nil
	case <-reconnected:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}

// errNodeGone: the holder's node was deleted although its session is alive.
var errNodeGone = fmt.Errorf("%w: the ZooKeeper node was deleted", lock.ErrTaken)

// watchHolder reports the loss of a lease if its node is deleted by Evict or by an operator, which the session does
// not notice.
//
// It sets a watch when the lease has been held for heartbeatInterval. This takes one round trip, in parallel to the
// work. Most holds are shorter and do not need a watch.
func (g *generation) watchHolder(own node, lease *lock.Lease, lost func(error)) (stop func() bool) {
	timer := time.AfterFunc(heartbeatInterval, func() {
		g.start(func() {
			for lease.Err() == nil && g.over.Err() == nil {
				reconnected := g.s.changed.next()
				w, err := g.watch(g.over, own.path())
				switch {
				case errors.Is(err, zk.ErrNoNode), err == nil && w.stat.Czxid != own.czxid: // gone, or another's now
					lost(errNodeGone)
					return
				case err != nil && answered(err):
					return // we have no permission to read the node
				case err != nil:
					continue // the connection broke several times; watch waits for it
				}
				select {
				case <-w.changed: // or deleted: read it again
				case <-reconnected:
				case <-lease.Done():
				}
			}
		})
	})
	return timer.Stop
}

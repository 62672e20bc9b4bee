package zklock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// A watch reports one change of a node.
type watch struct {
	data       []byte // data of the node, when the watch was set
	persistent bool   // the node is not ephemeral

	changed chan struct{} // closed when the node has changed; then deleted is valid
	deleted bool
}

// watches has the watches that are set. Waiters for the same node share a watch. The library cannot remove a watch: if
// a waiter gives up, its watch stays until the node changes. With a watch per waiter, watches would pile up when many
// short waits follow each other during one long hold.
type watches struct {
	mu     sync.Mutex
	byPath map[string]*watch
}

// watch sets a watch on a node. It uses getData, because exists would leave a permanent watch on a node that does not
// exist. It costs one round trip, or none if the watch is already set. The error is zk.ErrNoNode if the node does not
// exist.
func (g *generation) watch(ctx context.Context, path string) (*watch, error) {
	g.watches.mu.Lock()
	w := g.watches.byPath[path]
	g.watches.mu.Unlock()
	if w != nil {
		return w, nil
	}
	return retry(ctx, g, path, "read", func() (*watch, error) {
		data, stat, events, err := g.conn.GetW(path)
		if err != nil {
			return nil, err
		}
		w := &watch{data: data, persistent: stat.EphemeralOwner == 0, changed: make(chan struct{})}
		g.watches.mu.Lock()
		defer g.watches.mu.Unlock()
		if g.watches.byPath == nil {
			g.watches.byPath = make(map[string]*watch)
		}
		g.watches.byPath[path] = w
		g.requests.Go(func() { g.follow(path, w, events) })
		return w, nil
	})
}

// follow waits for the event of a watch. It ends with the generation, when the library closes events.
func (g *generation) follow(path string, w *watch, events <-chan zk.Event) {
	event := <-events
	g.watches.mu.Lock()
	if g.watches.byPath[path] == w {
		delete(g.watches.byPath, path)
	}
	g.watches.mu.Unlock()
	w.deleted = event.Type == zk.EventNodeDeleted
	close(w.changed)
}

// awaitChange waits until the watched node changes, until reconnected is closed, or until ctx ends. Only the end of ctx
// is an error. It calls woken if the node changed.
//
// reconnected is closed when the connection has been replaced by another. The library then sets its watches again, but
// the locks do not rely on that: a caller first gets the channel (Session.changed), then reads the nodes and sets a
// watch, and when the channel is closed it reads the nodes again.
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
// work. Most holds are shorter and do not need a watch. The watch ends when the node is deleted.
func (g *generation) watchHolder(own node, lease *lock.Lease, lost func(error)) (stop func() bool) {
	timer := time.AfterFunc(heartbeatInterval, func() {
		if !g.beginRequest() {
			return
		}
		defer g.requests.Done()
		for lease.Err() == nil {
			reconnected := g.s.changed.next()
			events, err := g.watchOwn(own)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				lost(errNodeGone)
				return
			case g.over.Err() != nil, err != nil && answered(err):
				return // the session is lost, or we have no permission to read the node
			case err != nil:
				continue // the connection broke several times; watchOwn waits for it
			}
			select {
			case <-events: // the node changed or was deleted: read it again
			case <-reconnected:
			case <-lease.Done():
			}
		}
	})
	return timer.Stop
}

// watchOwn sets a watch on our node. The error is zk.ErrNoNode if our node does not exist, even if another contender
// has a node of this name now.
func (g *generation) watchOwn(own node) (<-chan zk.Event, error) {
	return retry(g.over, g, own.path(), "read", func() (<-chan zk.Event, error) {
		_, stat, events, err := g.conn.GetW(own.path())
		if err == nil && stat.Czxid != own.czxid {
			err = zk.ErrNoNode
		}
		return events, err
	})
}

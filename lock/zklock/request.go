package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// The library knows no contexts: a request returns when the server has answered or the connection has broken. What
// follows makes requests in two layers. ask lets its caller go when ctx ends. Below it, retry repeats a request after a
// broken connection. Everything that is built on retry looks at its ctx only between two requests and so may block for
// longer: call it inside ask.

// tries bounds what is done again after a connection broke or a folder vanished. Each try waits for the server first.
const tries = 5

// errNotBegun means that ask has not called its work, because the session is over.
var errNotBegun = errors.New("not asked")

// ask does work that waits for the library, until ctx ends, and then for linger, so that the work can clean up if the
// server is there. A result that comes later goes to late, if that is not nil. Work that was given up goes on until the
// server answers or the connection breaks, and its request may still be executed: the library sends what is queued when
// it has connected again.
func ask[T any](
	ctx context.Context, g *generation, linger time.Duration, work func() (T, error), late func(T),
) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if !g.beginRequest() {
		return none, fmt.Errorf("%w: %w", errNotBegun, context.Cause(g.over))
	}
	answers, gone := make(chan answer), make(chan struct{})
	go func() {
		defer g.requests.Done()
		value, err := work()
		select {
		case answers <- answer{value, err}:
		case <-gone:
			if late != nil {
				late(value)
			}
		}
	}()
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	defer close(gone)
	if linger > 0 && g.responsive() {
		timer := time.NewTimer(linger)
		defer timer.Stop()
		select {
		case a := <-answers:
			return a.value, a.err
		case <-timer.C:
		}
	}
	return none, context.Cause(ctx)
}

// beginRequest counts work that is about to use the library. It returns false if none may any more.
func (g *generation) beginRequest() bool {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	if !g.closed {
		g.requests.Add(1)
	}
	return !g.closed
}

// responsive reports whether a request made now may be answered soon.
func (g *generation) responsive() bool {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.linked && g.outage.Err() == nil
}

// retry makes a request that may be executed twice, and makes it again when the connection broke.
func retry[T any](ctx context.Context, g *generation, request func() (T, error)) (value T, err error) {
	for range tries {
		if ctx.Err() != nil {
			return value, context.Cause(ctx)
		}
		value, err = request()
		if answered(err) {
			return value, err
		}
		if err := g.waitForLink(ctx); err != nil {
			return value, err
		}
	}
	return value, fmt.Errorf("%w: %w", errOutage, err)
}

// waitForLink waits for a connection.
func (g *generation) waitForLink(ctx context.Context) error {
	for {
		g.s.mu.Lock()
		linked, changed := g.linked, g.s.changed
		g.s.mu.Unlock()
		if linked {
			return nil
		}
		select {
		case <-changed:
		case <-g.over.Done():
			return context.Cause(g.over)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// answered reports whether err, or nil, is the server's answer. After any other error the request may have been
// executed or not, or may be executed later.
func answered(err error) bool {
	if err == nil {
		return true
	}
	for _, answer := range []error{
		zk.ErrNoNode, zk.ErrNodeExists, zk.ErrNotEmpty, zk.ErrNoAuth, zk.ErrInvalidACL, zk.ErrBadVersion,
		zk.ErrNoChildrenForEphemerals, zk.ErrBadArguments, zk.ErrInvalidPath,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// unlessGone returns err, or nil if err says that there is no such node any more.
func unlessGone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// everyone may do everything, as in Curator: whoever reaches the server may lock and, in need, unlock.
func everyone() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// children lists a folder.
func (g *generation) children(ctx context.Context, path string) ([]string, error) {
	return retry(ctx, g, func() ([]string, error) {
		names, _, err := g.conn.Children(path)
		return names, err
	})
}

// get reads a node.
func (g *generation) get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	data, err = retry(ctx, g, func() ([]byte, error) {
		var data []byte
		data, stat, err = g.conn.Get(path)
		return data, err
	})
	return data, stat, err
}

// stat reads what the server knows of a node beside its data.
func (g *generation) stat(ctx context.Context, path string) (*zk.Stat, error) {
	return retry(ctx, g, func() (*zk.Stat, error) {
		exists, stat, err := g.conn.Exists(path)
		if err == nil && !exists {
			err = zk.ErrNoNode
		}
		return stat, err
	})
}

// makeFolder makes path and what is missing above it. They are containers, which the server removes some time after
// their last child has gone (a minute, by default). A server before 3.5 has no containers, so there they stay.
func (g *generation) makeFolder(ctx context.Context, path string) error {
	for range tries {
		_, err := retry(ctx, g, func() (string, error) {
			made, err := g.conn.CreateContainer(path, nil, zk.FlagContainer, everyone())
			switch {
			case err == nil, errors.Is(err, zk.ErrNoAuth),
				errors.Is(err, zk.ErrNoNode), errors.Is(err, zk.ErrNodeExists):
				return made, err
			}
			return g.conn.Create(path, nil, zk.FlagPersistent, everyone())
		})
		if !errors.Is(err, zk.ErrNoNode) {
			if errors.Is(err, zk.ErrNodeExists) {
				return nil
			}
			return err
		}
		parent := path[:strings.LastIndexByte(path, '/')]
		if parent == "" {
			return err
		}
		if err := g.makeFolder(ctx, parent); err != nil {
			return err
		}
	}
	return zk.ErrNoNode
}

// A watch tells once that a node changed.
type watch struct {
	path       string
	data       []byte          // of the node, when the watch was set
	persistent bool            // the node is not ephemeral
	events     <-chan zk.Event // one event, then closed: the first reader learns what happened, the others that it did
	forgetting sync.Once       // see leave
}

// watches are the watches that are set. Waiters for the same node share one. The library cannot take a watch back: a
// watch that a timed-out waiter leaves behind stays until the node changes, so with one each, waits of 50 ms behind one
// long hold would pile up.
type watches struct {
	mu     sync.Mutex
	byPath map[string]*watch
}

// watch sets a watch on a node. It reads the node and does not ask whether it exists: if it does not exist, no watch
// stays behind (the server would keep that until a node of the same name is made, that is, for ever). It costs one
// round trip, or none if there is such a watch. The error of a node that is gone is zk.ErrNoNode.
func (g *generation) watch(ctx context.Context, path string) (*watch, error) {
	g.watches.mu.Lock()
	w := g.watches.byPath[path]
	g.watches.mu.Unlock()
	if w != nil {
		return w, nil
	}
	return retry(ctx, g, func() (*watch, error) {
		data, stat, events, err := g.conn.GetW(path)
		if err != nil {
			return nil, err
		}
		w := &watch{path: path, data: data, persistent: stat.EphemeralOwner == 0, events: events}
		g.watches.mu.Lock()
		defer g.watches.mu.Unlock()
		if g.watches.byPath == nil {
			g.watches.byPath = make(map[string]*watch)
		}
		g.watches.byPath[path] = w
		return w, nil
	})
}

// reconnection returns a channel that is closed when the connection has been replaced by another.
//
// The library then renews its watches, but no lock depends on that here. Ask for the channel first, then look at the
// nodes and set a watch, and when the channel is closed look again.
func (g *generation) reconnection() <-chan struct{} {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return g.reconnected
}

// await waits until the watched node changes, until reconnected is closed, or until ctx ends, which alone is an error.
// It calls woken if the server woke it. deleted reports whether this call is known to have seen the node's deletion.
func (g *generation) await(
	ctx context.Context, w *watch, reconnected <-chan struct{}, woken func(),
) (deleted bool, err error) {
	select {
	case event := <-w.events:
		g.forget(w)
		woken()
		return event.Type == zk.EventNodeDeleted, nil
	case <-reconnected:
		g.leave(w)
		return false, nil
	case <-ctx.Done():
		g.leave(w)
		return false, context.Cause(ctx)
	}
}

// forget drops a watch that has fired.
func (g *generation) forget(w *watch) {
	g.watches.mu.Lock()
	defer g.watches.mu.Unlock()
	if g.watches.byPath[w.path] == w {
		delete(g.watches.byPath, w.path)
	}
}

// leave sees to it that a watch is forgotten also if it fires when nobody waits for it any more. Until then others can
// share it.
func (g *generation) leave(w *watch) {
	w.forgetting.Do(func() {
		if !g.beginRequest() {
			return
		}
		go func() {
			defer g.requests.Done()
			<-w.events // the library closes it in the end
			g.forget(w)
		}()
	})
}

// errNodeGone is the loss of a holder whose node was deleted while its session lives.
var errNodeGone = fmt.Errorf("%w: the ZooKeeper node was deleted", lock.ErrTaken)

// watchHolder signals the loss of a lease whose node is deleted by somebody else: by Evict, or by an operator with the
// server's own tools. The session knows nothing of that.
//
// It sets a watch only once the lease has been held for heartbeatInterval, so that short holds, which are nearly all,
// do not pay for it. That is one round trip beside the work. Nothing is left on the server: the watch goes with the
// node.
func (g *generation) watchHolder(own node, lease *lock.Lease, lost func(error)) (stop func() bool) {
	timer := time.AfterFunc(heartbeatInterval, func() {
		if !g.beginRequest() {
			return
		}
		defer g.requests.Done()
		for lease.Err() == nil {
			reconnected := g.reconnection()
			events, err := g.watchOwn(own)
			switch {
			case errors.Is(err, zk.ErrNoNode):
				lost(errNodeGone)
				return
			case g.over.Err() != nil, err != nil && answered(err):
				return // lost with the session, or we may not read the node
			case err != nil:
				continue // the connection broke again and again; watchOwn waits for it
			}
			select {
			case <-events: // changed or deleted: look
			case <-reconnected:
			case <-lease.Done():
			}
		}
	})
	return timer.Stop
}

// watchOwn fails with zk.ErrNoNode also if another made a node of that name since.
func (g *generation) watchOwn(own node) (<-chan zk.Event, error) {
	return retry(g.over, g, func() (<-chan zk.Event, error) {
		_, stat, events, err := g.conn.GetW(own.path())
		if err == nil && stat.Czxid != own.czxid {
			err = zk.ErrNoNode
		}
		return events, err
	})
}

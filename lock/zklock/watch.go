package zklock

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"
)

// A watch tells once that a node changed.
type watch struct {
	path       string
	data       []byte          // of the node, when the watch was set
	persistent bool            // it was no ephemeral node
	events     <-chan zk.Event // gets one event and is closed: the first to read it learns what, all learn that something happened
	orphans    sync.Once
}

// watching shares watches between those who wait for the same node. The library cannot take a watch back: each that a
// timed-out waiter leaves behind stays until the node changes, so waits of 50 ms behind one long hold would pile up.
type watching struct {
	mu     sync.Mutex
	byPath map[string]*watch
}

// watch sets a watch on a node, by reading it and not by asking whether it exists: if it does not, no watch stays behind (the
// server would keep that until a node of the same name is made, that is, for ever). One round trip, or none if there is such a watch.
// The error of a node that is gone is zk.ErrNoNode. See read.
func (g *generation) watch(ctx context.Context, path string) (*watch, error) {
	g.watching.mu.Lock()
	w := g.watching.byPath[path]
	g.watching.mu.Unlock()
	if w != nil {
		return w, nil
	}
	return read(ctx, g, func() (*watch, error) {
		data, stat, events, err := g.conn.GetW(path)
		if err != nil {
			return nil, err
		}
		w := &watch{path: path, data: data, persistent: stat.EphemeralOwner == 0, events: events}
		g.watching.mu.Lock()
		defer g.watching.mu.Unlock()
		if g.watching.byPath == nil {
			g.watching.byPath = make(map[string]*watch)
		}
		g.watching.byPath[path] = w
		return w, nil
	})
}

// forget is for a watch that has fired.
func (g *generation) forget(w *watch) {
	g.watching.mu.Lock()
	defer g.watching.mu.Unlock()
	if g.watching.byPath[w.path] == w {
		delete(g.watching.byPath, w.path)
	}
}

// leave is for a watch that may fire when nobody waits for it any more. Whoever comes meanwhile can share it.
func (g *generation) leave(w *watch) {
	w.orphans.Do(func() {
		if !g.begin() {
			return
		}
		go func() {
			defer g.requests.Done()
			<-w.events // the library closes it in the end
			g.forget(w)
		}()
	})
}

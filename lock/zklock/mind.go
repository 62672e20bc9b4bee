package zklock

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// errNodeGone is the loss of a holder whose node was deleted while its session lives.
var errNodeGone = fmt.Errorf("%w: the ZooKeeper node was deleted", lock.ErrTaken)

// mind sees to it that a holder learns when its node is deleted by another's hand: by Evict, or by an operator with the server's
// own tools. The session knows nothing of that.
//
// It is a watch, set only once the lease has been held for beatEvery, so that short holds, which are nearly all, do not pay for it. That is
// one round trip beside the work, and nothing is left on the server: the watch goes with the node.
func (g *generation) mind(own node, lease *lock.Lease, lost func(error)) (stop func() bool) {
	timer := time.AfterFunc(beatEvery, func() {
		if !g.begin() {
			return
		}
		defer g.requests.Done()
		for lease.Err() == nil {
			g.s.mu.Lock()
			relinked := g.relinked
			g.s.mu.Unlock()
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
			case <-relinked: // the library renews its watches; as in wait, we do not rely on it
			case <-lease.Done():
			}
		}
	})
	return timer.Stop
}

// watchOwn fails with zk.ErrNoNode also if another made a node of that name since.
func (g *generation) watchOwn(own node) (<-chan zk.Event, error) {
	return read(g.over, g, func() (<-chan zk.Event, error) {
		_, stat, events, err := g.conn.GetW(own.path())
		if err == nil && stat.Czxid != own.czxid {
			err = zk.ErrNoNode
		}
		return events, err
	})
}

package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// Ephemeral is the plainest lock of ZooKeeper, and the herd: one ephemeral node, and everybody who waits watches it.
//
// The algorithm is the one that ZooKeeper's recipes lead away from ("herd effect", https://zookeeper.apache.org/doc/current/recipes.html):
//
//  1. Create the ephemeral node of the key. Whoever creates it holds the lock.
//  2. If it exists, watch it. When it has gone, go back to 1, with everybody else who waits.
//  3. To release, delete the node. It also goes with the session, if the holder crashes.
//
// Round trips, uncontended: 1 to acquire and 1 to release, each one transaction. Contended: 2 to begin to wait (create, watch), 1 to
// release. Then each of the W who wait is woken and tries to create the node: W creates, of which one succeeds. Those that fail
// are transactions of the whole ensemble like the others. The W-1 losers watch again. Until all n have been served that is
// n(n+1)/2 wake-ups for n waiters, and as many creates, where Sequential takes n wake-ups; see lock.OnWake, which counts them. Only the waiters of
// one process share: ZooKeeper sends one event for a node to a connection, and they set at least one watch, at most one each.
// A first use of a key makes its folder, for 2 more; the first in a session reads the record of fences, for 2.
//
// A try (Options.TryOnce) that fails costs one read and writes nothing; one that succeeds costs one read more.
//
// Promised: as Sequential, but not the order of arrival. Who waits may be passed by any number of others, and wait for as long as there are
// some: bound the wait. The fence is as there; see scale.
//
// The folder of a key is that of Sequential with "%ephemeral" behind its name, which no key is mapped to. So the two neither
// exclude nor disturb each other on the same key, and no node of this lock stands in the queue of Curator's InterProcessMutex, which counts every
// child of its path.
//
// Why a folder, for one node? Its version tells one holder's node from the next one's, which has the same path: see lockNode.
type Ephemeral struct {
	session *Session
}

// NewEphemeral makes an Ephemeral of a Session, which may serve others too.
func NewEphemeral(s *Session) *Ephemeral { return &Ephemeral{s} }

// herdFolder cannot be the end of an escaped key: it is no %XX.
const herdFolder = "%ephemeral"

func (e *Ephemeral) folder(key string) (string, error) {
	dir, err := e.session.folder(key)
	return dir + herdFolder, err
}

// Acquire waits for key until ctx ends; see lock.Locker and Sequential.Acquire.
func (e *Ephemeral) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	dir, err := e.folder(key)
	if err != nil {
		return nil, err
	}
	return e.session.acquire(ctx, raced{}, key, dir, o)
}

// raced is the rule of Ephemeral.
type raced struct{ lockNode }

// errNoLock is for a node that no session owns, where the lock would be: nobody would ever release it.
var errNoLock = errors.New("the lock's place is taken by a node that is not ephemeral")

// take tries to create the node every time that it has gone.
func (r raced) take(ctx context.Context, t *turn) (node, error) {
	for {
		if t.options.TryOnce {
			if err := r.peek(ctx, t); err != nil {
				return node{}, err
			}
		}
		own, err := t.g.enter(ctx, r, t)
		if !errors.Is(err, zk.ErrNodeExists) {
			return own, err
		}
		if t.options.TryOnce {
			continue // the next look tells who was quicker
		}
		if err := r.wait(ctx, t); err != nil {
			return node{}, err
		}
	}
}

// peek is for a try: if the key is held it says so, for the price of reading.
func (r raced) peek(ctx context.Context, t *turn) error {
	holder, err := r.holder(ctx, t.g, t.dir)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	default:
		return &lock.HeldError{Key: t.key, Holder: holder.Who}
	}
}

// wait waits until something happens to the node. That may have been before: then it returns at once.
func (r raced) wait(ctx context.Context, t *turn) error {
	t.g.s.mu.Lock()
	relinked := t.g.relinked
	t.g.s.mu.Unlock()
	t.held, t.holder = true, ""
	held, err := t.g.watch(ctx, t.dir+"/"+lockNodeName)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil
	case err != nil:
		return err
	case held.persistent:
		t.g.leave(held)
		return fmt.Errorf("%w: %s", errNoLock, held.path)
	}
	_, t.holder = signature(held.data)
	select {
	case <-held.events:
		t.options.Woken()
		t.g.forget(held)
		return nil
	case <-relinked: // see turn.wait
		t.g.leave(held)
		return nil
	case <-ctx.Done():
		t.g.leave(held)
		return context.Cause(ctx)
	}
}

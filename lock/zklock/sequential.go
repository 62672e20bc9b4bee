package zklock

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// Sequential is a fair lock: a queue of ephemeral sequential nodes in which everyone watches the one before.
//
// The algorithm is ZooKeeper's recipe for locks (https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks) as
// Curator's InterProcessMutex does it (LockInternals), under the same names, so that both exclude each other on the same path:
//
//  1. Create an ephemeral sequential node with a guid in its name, in a folder per key.
//  2. If no contender has a lower sequence, the lock is held.
//  3. Otherwise watch the one just below. One release wakes one waiter, not all of them.
//  4. When it has gone, go back to 2.
//  5. To release, delete the node. It also goes with the session, if the holder crashes.
//
// Round trips, uncontended: 1 to acquire (one transaction) and 1 to release, where Curator and the client library's Lock take 3 in
// all. Contended: 3 to queue up (create, list, watch), 1 to release. From a release to the next holder: the deletion and its event,
// then one listing, which is left out where the one who left was the first of all. A first use of a key makes its folder, for 2 more; the
// first in a session reads the record of fences, for 2.
//
// A try (Options.TryOnce) that fails costs 2 reads and writes nothing; one that succeeds costs one read more.
//
// Promised: one holder per key among all processes while no lease is lost; the order of arrival; fences that grow; a loss that is
// signalled at two thirds of the session timeout, before the server lets the next one in (see attend); that whoever gives up, is
// cancelled, or fails leaves no node, or one that is being deleted. A crashed holder's key is free within a session timeout
// and a tick.
//
// Not promised: that a process that was paused, or that ignores its lease, does not write when the lease is lost.
// That is what the fence is for. It is made of the czxid of the node, which grows in an ensemble, and of a number that is kept in
// ZooKeeper and was its clock once, so that fences grow also when the ensemble was lost and is built anew; see scale. It is not the
// sequence, which starts again with every new folder.
type Sequential struct {
	session *Session
}

var _ lock.FenceRanger = (*Sequential)(nil)

// NewSequential makes a Sequential of a Session, which may serve others too.
func NewSequential(s *Session) *Sequential { return &Sequential{s} }

// FenceRange is the distance between fences; see lock.FenceRanger.
func (q *Sequential) FenceRange() uint64 { return span }

// Acquire waits for key until ctx ends; see lock.Locker. Options.Owner is written into the node for others to read. While
// the session is suspended a waiter keeps its place for 1.5 s; then, and at once if there is no connection to begin with, the error
// matches lock.ErrDown. Keys are any strings of 1 to 1024 bytes.
func (q *Sequential) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	dir, err := q.session.folder(key)
	if err != nil {
		return nil, err
	}
	return q.session.acquire(ctx, queued{}, key, dir, o)
}

// queued is the rule of Sequential.
type queued struct{ nodeInQueue }

// take queues up and waits until our node is the first.
func (q queued) take(ctx context.Context, t *turn) (node, error) {
	if t.options.TryOnce {
		if err := t.peek(ctx); err != nil {
			return node{}, err
		}
	}
	own, err := t.g.enter(ctx, q, t)
	if err != nil || own.alone {
		return own, err
	}
	if err = t.wait(ctx, own); err != nil && !errors.Is(err, errAgain) {
		t.g.abandon(q, own)
	}
	return own, err
}

// peek is for a try: if the key is held it says so, for the price of reading. Creating a node to delete it again would be two
// transactions of the whole ensemble for each "no".
func (t *turn) peek(ctx context.Context) error {
	names, err := t.g.children(ctx, t.dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	queue := contenders(names)
	if len(queue) == 0 {
		return nil
	}
	return t.heldBy(ctx, queue[0].name)
}

// heldBy is the error of a try that met a holder. One that goes away meanwhile did hold the key when we tried.
func (t *turn) heldBy(ctx context.Context, head string) error {
	holder, _ := t.g.contender(ctx, t.dir+"/"+head)
	return &lock.HeldError{Key: t.key, Holder: holder.Who}
}

// wait waits until own is at the head of the queue, or ctx ends.
func (t *turn) wait(ctx context.Context, own node) error {
	for {
		t.g.s.mu.Lock()
		relinked := t.g.relinked
		t.g.s.mu.Unlock()
		names, err := t.g.children(ctx, t.dir)
		if errors.Is(err, zk.ErrNoNode) {
			return errAgain
		}
		if err != nil {
			return err
		}
		p := locate(names, own.name)
		switch {
		case !p.found:
			return errAgain
		case p.ahead == 0:
			return nil
		case t.options.TryOnce:
			return t.heldBy(ctx, p.head)
		}
		t.held, t.holder = true, ""
		before, err := t.g.watch(ctx, t.dir+"/"+p.before)
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		if p.ahead == 1 {
			t.holder = string(before.data)
		}
		select {
		case event := <-before.events:
			t.options.Woken()
			t.g.forget(before)
			if event.Type == zk.EventNodeDeleted && p.ahead == 1 {
				return nil // nobody can come in ahead of us, so nobody is
			}
		case <-relinked: // the library renews its watches on the new connection; we do not bet a lock on it
			t.g.leave(before)
		case <-ctx.Done():
			t.g.leave(before)
			return context.Cause(ctx)
		}
	}
}

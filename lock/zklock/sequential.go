package zklock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// Sequential is a fair lock: a queue of ephemeral sequential nodes in which every waiter watches the node before its
// own.
//
// The algorithm is ZooKeeper's recipe for locks
// (https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks) as Curator's InterProcessMutex implements
// it (LockInternals), with the same names, so that both exclude each other on the same path:
//
//  1. Create an ephemeral sequential node with a guid in its name, in a folder per key.
//  2. If no contender has a lower sequence, the lock is held.
//  3. Otherwise watch the one just below. One release wakes one waiter, not all of them.
//  4. When that node is deleted, go back to 2.
//  5. To release, delete the node. If the holder crashes, the node is removed with the session.
//
// Round trips, uncontended: 1 to acquire (one transaction) and 1 to release, where Curator and the client library's
// Lock take 3 in all. Contended: 3 to queue up (create, list, watch), 1 to release, and 1 to list when the node before
// it is deleted, unless that node was the first of all. The first use of a key makes its folder, for 2 more. The first
// use in a session reads the record of fences, for 2. A failed try (Options.TryOnce) costs 2 reads; a successful one
// costs 1 more.
//
// Promised: one holder per key among all processes while no lease is lost; the order of arrival; fences that grow (see
// fenceRecord; a sequence is none, because it starts at 0 in each new folder); a lease that reports its loss at two
// thirds of the session timeout, before the server grants the key to the next contender (see generation.monitor); a
// caller that gives up, is canceled, or fails leaves no node, or one that is being deleted. A crashed holder's key is
// free within a session timeout and a tick.
//
// Not promised: a process that was paused, or that ignores its lease, may write after the loss. The fence stops that
// write.
type Sequential struct{ locker }

// NewSequential makes a Sequential of a Session, which may serve other locks too.
func NewSequential(s *Session) *Sequential { return &Sequential{locker{s, sequential{}}} }

// Promise is what it promises with the defaults of its options.
func (*Sequential) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Fenced: true, Fair: true, Blocking: true, Reentrant: true,
		SignalsLoss: true, FreedAfterCrash: 10 * time.Second,
	}
}

// FenceRange returns the distance between fences; see driver.FenceRanger.
func (q *Sequential) FenceRange() uint64 { return driver.FenceRange }

// sequential is the recipe of Sequential. The numbers in the code refer to the steps in the comment of Sequential.
type sequential struct{}

func (sequential) suffix() string { return "" }

func (sequential) newNode(guid, owner string) (name, data string, flags int32) {
	return protected + guid + lockName, owner, zk.FlagEphemeralSequential
}

// enter queues up. The key is ours at once if our node is the only one.
func (sequential) enter(ctx context.Context, a *attempt) (own node, ours bool, err error) {
	own, err = a.createNode(ctx) // 1
	return own, own.alone, err
}

// awaitTurn waits until own is the first in the queue, or ctx ends.
func (sequential) awaitTurn(ctx context.Context, a *attempt, own node) (node, error) {
	for {
		reconnected := a.g.s.changed.next()
		queue, err := readQueue(ctx, a.g, a.dir) // 2
		if errors.Is(err, zk.ErrNoNode) {
			return node{}, errAgain
		}
		if err != nil {
			return own, err
		}
		ahead := slices.IndexFunc(queue, func(n queueNode) bool { return n.name == own.name })
		switch {
		case ahead < 0:
			return node{}, errAgain
		case ahead == 0:
			return own, nil
		case a.options.TryOnce:
			return own, &lock.HeldError{Key: a.key} // another contender was faster than our node
		}
		a.held = &lock.HeldError{Key: a.key}
		before, err := a.g.watch(ctx, a.dir+"/"+queue[ahead-1].name) // 3
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return own, err
		}
		if ahead == 1 {
			a.held.Holder = string(before.data)
		}
		deleted, err := before.awaitChange(ctx, reconnected, a.options.Woken) // 4
		if err != nil {
			return own, err
		}
		// With more nodes ahead we may not be the first, because the owner of the deleted node may have given up. If an
		// operator has deleted own meanwhile, watchHolder or the release finds the loss.
		if deleted && ahead == 1 {
			return own, nil
		}
	}
}

func readQueue(ctx context.Context, g *generation, dir string) ([]queueNode, error) {
	names, err := g.children(ctx, dir)
	return parseQueue(names), err
}

// find lists the folder, and reads the node with guid.
func (sequential) find(ctx context.Context, g *generation, dir, guid string) (node, error) {
	queue, err := readQueue(ctx, g, dir)
	if err != nil {
		return node{}, err
	}
	at := slices.IndexFunc(queue, func(q queueNode) bool { return strings.HasPrefix(q.name, protected+guid) })
	if at < 0 {
		return node{}, zk.ErrNoNode
	}
	n, err := g.read(ctx, dir, queue[at].name)
	n.guid = guid
	return n, err
}

// delete is step 5. It needs no condition, because no other node has this name, in any session.
func (r sequential) delete(ctx context.Context, g *generation, n node) (err error) {
	if n.name == "" {
		if n, err = r.find(ctx, g, n.dir, n.guid); err != nil {
			return err
		}
	}
	_, err = ask(ctx, g, 0, n.path(), "delete", func() (struct{}, error) {
		return struct{}{}, g.conn.Delete(n.path(), -1)
	})
	return err
}

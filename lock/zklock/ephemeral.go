package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

// Ephemeral is the simplest ZooKeeper lock: one ephemeral node that every waiter watches. ZooKeeper's recipes advise
// against it, because of the herd effect (https://zookeeper.apache.org/doc/current/recipes.html):
//
//  1. Create the ephemeral node of the key. The contender that creates it holds the lock.
//  2. If the node exists, watch it. When it is deleted, go back to 1, with all the other waiters.
//  3. To release, delete the node. If the holder crashes, the node is removed with the session.
//
// Round trips, uncontended: 1 to acquire and 1 to release, each one transaction. Contended: 2 to begin to wait (create,
// watch), 1 to release. Then each of the W waiters tries to create the node. One create succeeds. Each failed create is
// a transaction of the whole ensemble, too, and these W-1 waiters watch again. Serving n waiters takes n(n+1)/2
// wake-ups and as many creates, where Sequential has n wake-ups; Options.OnWake counts them. The waiters of one process
// share a watch. The first use of a key or in a session, and a successful try (Options.TryOnce), cost the same as with
// Sequential; a failed try costs one read.
//
// It promises the same as Sequential, except the order of arrival. Any number of other callers may overtake a waiter,
// so limit the wait.
//
// The folder of a key is Sequential's with "%ephemeral" appended to its name. So the two locks are independent on the
// same key, and no node of this lock is in the queue of Curator's InterProcessMutex, which counts every child.
type Ephemeral struct{ locker }

// NewEphemeral makes an Ephemeral of a Session, which may serve other locks too.
func NewEphemeral(s *Session) *Ephemeral { return &Ephemeral{locker{s, ephemeral{}}} }

// Promise is what it promises with the defaults of its options.
func (*Ephemeral) Promise() driver.Promise {
	return driver.Promise{
		Exclusive: true, Scope: driver.Cluster, Fenced: true, Blocking: true, Reentrant: true, SignalsLoss: true,
		FreedAfterCrash: 10 * time.Second,
	}
}

const (
	// ephemeralSuffix cannot be the end of an escaped key, because "%ep" is not an escape.
	ephemeralSuffix = "%ephemeral"
	// ephemeralName is the name of the node in its folder.
	ephemeralName = "lock"
)

// ephemeral is the recipe of Ephemeral: one node, with the same name for every holder. Its data is "guid owner". The
// numbers in the code refer to the steps in the comment of Ephemeral.
//
// Such a node cannot be deleted by its path alone: if its holder was evicted or has expired, the node may be the next
// holder's when the request arrives. The node's own version does not help, because it begins at 0 for every node. So
// each node has its own folder. The transaction that creates the node also makes an empty write to the folder, so
// that its version counts the holders. The transaction that deletes the node checks that version.
//
// The version begins again if the server removes the folder, empty for a minute. After that, a release could delete
// another holder's node, but only if the releasing holder was evicted without noticing, and had as many successors in
// the new folder as predecessors in the old one.
type ephemeral struct{}

func (ephemeral) suffix() string { return ephemeralSuffix }

func (ephemeral) newNode(guid, owner string) (name, data string, flags int32) {
	return ephemeralName, guid + " " + owner, zk.FlagEphemeral
}

// enter tries to create the node.
func (ephemeral) enter(ctx context.Context, a *attempt) (own node, ours bool, err error) {
	own, err = a.createNode(ctx) // 1
	switch {
	case !errors.Is(err, zk.ErrNodeExists):
		return own, err == nil, err
	case a.options.TryOnce:
		return node{}, false, &lock.HeldError{Key: a.key} // another contender was faster
	}
	return node{}, false, nil
}

// awaitTurn tries to create the node each time it was deleted.
func (ephemeral) awaitTurn(ctx context.Context, a *attempt, _ node) (node, error) {
	for {
		reconnected := a.g.s.changed.next()
		a.held = &lock.HeldError{Key: a.key}
		path := a.dir + "/" + ephemeralName
		holder, err := a.g.watch(ctx, path) // 2
		if err == nil && holder.stat.EphemeralOwner == 0 {
			err = fmt.Errorf("%w: %s", errNoLock, path)
		}
		if err == nil {
			_, a.held.Holder = parseData(string(holder.data))
			_, err = holder.awaitChange(ctx, reconnected, a.options.Woken)
		}
		if err := unlessGone(err); err != nil {
			return node{}, err
		}
		own, err := a.createNode(ctx) // 1
		if !errors.Is(err, zk.ErrNodeExists) {
			return own, err
		}
	}
}

// find returns the node if its guid is guid. It reads the folder before the node, so if the holder changes in between,
// the version is too old, and the deletion fails.
func (ephemeral) find(ctx context.Context, g *generation, dir, guid string) (node, error) {
	folder, err := g.get(ctx, dir)
	if err != nil {
		return node{}, err
	}
	n, err := g.readLock(ctx, dir)
	if err != nil {
		return node{}, err
	}
	if n.guid != guid {
		return node{}, zk.ErrNoNode
	}
	n.version = folder.stat.Version
	return n, nil
}

// delete is step 3, in one round trip. If the version of the folder is not known, or from an earlier session, find
// first reads it, in two more round trips. If the folder has another version now, find and a second deletion follow, in
// three more each time.
func (r ephemeral) delete(ctx context.Context, g *generation, n node) error {
	known := n.version != 0 && n.session == g.now().id
	var err error
	for range tries {
		if !known {
			if n, err = r.find(ctx, g, n.dir, n.guid); err != nil {
				return err
			}
		}
		_, err = g.transact(ctx, 0, n.path(), []string{"read", "delete"},
			&zk.CheckVersionRequest{Path: n.dir, Version: n.version},
			&zk.DeleteRequest{Path: n.path(), Version: -1},
		)
		if !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
		known = false // another contender has the key, or an operator wrote to the folder
	}
	return err
}

// readLock reads the holder's node.
func (g *generation) readLock(ctx context.Context, dir string) (node, error) {
	n, err := g.read(ctx, dir, ephemeralName)
	n.guid, n.owner = parseData(n.owner)
	return n, err
}

// parseData parses the data that create wrote into the node. If another program wrote the data, they contain no guid,
// and all of them count as the owner.
func parseData(data string) (guid, owner string) {
	guid, owner, found := strings.Cut(data, " ")
	if !found || uuid.Validate(guid) != nil {
		return "", data
	}
	return guid, owner
}

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
)

// Ephemeral is the simplest ZooKeeper lock, and the one with the herd effect: one ephemeral node that every waiter
// watches.
//
// ZooKeeper's recipes advise against this algorithm ("herd effect",
// https://zookeeper.apache.org/doc/current/recipes.html):
//
//  1. Create the ephemeral node of the key. The contender that creates it holds the lock.
//  2. If the node exists, watch it. When it is deleted, go back to 1, with all the other waiters.
//  3. To release, delete the node. If the holder crashes, the node is removed with the session.
//
// Round trips, uncontended: 1 to acquire and 1 to release, each one transaction. Contended: 2 to begin to wait (create,
// watch), 1 to release. Then each of the W waiters is woken and tries to create the node. One create succeeds. Each
// failed create is a transaction of the whole ensemble, too, and these W-1 waiters watch again. Serving n waiters takes
// n(n+1)/2 wake-ups and as many creates, where Sequential has n wake-ups; Options.OnWake counts them. The waiters of
// one process share a connection, to which ZooKeeper sends one event per node, and may share a watch. The first use of
// a key makes its folder, for 2 more. The first use in a session reads the record of fences, for 2.
//
// A failed try (Options.TryOnce) costs one read and writes nothing. A successful one costs one read more.
//
// It promises the same as Sequential, except the order of arrival. Any number of other callers may overtake a waiter,
// so limit the wait.
//
// The folder of a key is Sequential's folder with "%ephemeral" appended to its name. No key is mapped to such a name.
// So the two locks are independent on the same key, and no node of this lock is in the queue of Curator's
// InterProcessMutex, which counts every child of its path.
type Ephemeral struct {
	session *Session
}

// NewEphemeral makes an Ephemeral of a Session, which may serve other locks too.
func NewEphemeral(s *Session) *Ephemeral { return &Ephemeral{s} }

// ephemeralSuffix cannot be the end of an escaped key, because "%ep" is not an escape.
const ephemeralSuffix = "%ephemeral"

func (e *Ephemeral) folder(key string) (string, error) {
	dir, err := e.session.folder(key)
	return dir + ephemeralSuffix, err
}

// Acquire waits for key until ctx ends; see lock.Locker and Sequential.Acquire.
func (e *Ephemeral) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	return e.session.acquire(ctx, ephemeral{}, key, o)
}

// ephemeral is the recipe of Ephemeral: one node, with the same name for every holder. Its data is "guid owner". The
// numbers in the code refer to the steps in the comment of Ephemeral.
//
// Such a node cannot be deleted by its path alone: if its holder was evicted or has expired, the node may be the next
// holder's when the request arrives. The node's own version does not help, because it begins at 0 for every node. So
// each node has its own folder. The transaction that creates the node also makes an empty write to the folder, so
// that the version of the folder counts the holders. The transaction that deletes the node checks that version.
//
// The version begins again if the server removes the folder, which has been empty for a minute. After that, a release
// could delete another holder's node, but only if the releasing holder was evicted without noticing, and had as many
// successors in the new folder as predecessors in the old one.
type ephemeral struct{}

// ephemeralName is the name of the node in its folder.
const ephemeralName = "lock"

func (ephemeral) suffix() string { return ephemeralSuffix }

func (r ephemeral) enter(ctx context.Context, a *attempt) (own node, ours bool, err error) {
	for {
		if a.options.TryOnce {
			if err := r.peek(ctx, a); err != nil {
				return node{}, false, err
			}
		}
		own, err = a.create(ctx) // 1
		if !errors.Is(err, zk.ErrNodeExists) {
			return own, err == nil, err
		}
		if !a.options.TryOnce {
			return node{}, false, nil
		}
		// Another contender was faster. The next peek returns its name.
	}
}

// wait tries to create the node each time it was deleted.
func (r ephemeral) wait(ctx context.Context, a *attempt, _ node) (node, error) {
	for {
		if err := r.watch(ctx, a); err != nil {
			return node{}, err
		}
		own, err := a.create(ctx) // 1
		if !errors.Is(err, zk.ErrNodeExists) {
			return own, err
		}
	}
}

// watch waits until the node changes or is deleted. If that has already happened it returns at once.
func (ephemeral) watch(ctx context.Context, a *attempt) error {
	reconnected := a.g.reconnection()
	a.held, a.holder = true, ""
	held, err := a.g.watch(ctx, a.dir+"/"+ephemeralName) // 2
	switch {
	case err != nil:
		return unlessGone(err)
	case held.persistent:
		a.g.leave(held)
		return fmt.Errorf("%w: %s", errNoLock, held.path)
	}
	_, a.holder = parseData(held.data)
	_, err = a.g.await(ctx, held, reconnected, a.options.Woken)
	return err
}

// peek is for TryOnce. It returns an error if the key is held, and only reads.
func (r ephemeral) peek(ctx context.Context, a *attempt) error {
	holder, err := r.holder(ctx, a.g, a.dir)
	if err != nil {
		return unlessGone(err)
	}
	return &lock.HeldError{Key: a.key, Holder: holder.Who}
}

// holder returns the contender that has the key, without its fence, in one read.
func (ephemeral) holder(ctx context.Context, g *generation, dir string) (Contender, error) {
	path := dir + "/" + ephemeralName
	data, stat, err := g.get(ctx, path)
	if err == nil && stat.EphemeralOwner == 0 {
		err = fmt.Errorf("%w: %s", errNoLock, path)
	}
	if err != nil {
		return Contender{}, err
	}
	_, owner := parseData(data)
	return Contender{Who: owner, Node: path, Since: time.UnixMilli(stat.Ctime), czxid: stat.Czxid}, nil
}

// create creates the node. The error is zk.ErrNodeExists if the key is held.
func (ephemeral) create(g *generation, r *fenceRecord, dir, guid, owner string) (node, error) {
	done, err := g.conn.Multi(
		&zk.CreateRequest{
			Path: dir + "/" + ephemeralName, Data: []byte(guid + " " + owner), Acl: g.s.acl(), Flags: zk.FlagEphemeral,
		},
		&zk.SetDataRequest{Path: dir, Version: -1},
		r.unchanged(),
	)
	if err != nil {
		return node{}, changedOr(done, 2, repliedAll(dir, rightsToCreate, done, err))
	}
	folder := done[1].Stat
	return node{
		dir: dir, name: ephemeralName, guid: guid, czxid: folder.Mzxid, clock: folder.Mtime,
		version: folder.Version, versionFrom: g,
	}, nil
}

// find returns the node if its guid is guid.
func (r ephemeral) find(ctx context.Context, g *generation, dir, guid string) (node, error) {
	n, err := r.look(ctx, g, dir)
	if err == nil && n.guid != guid {
		err = zk.ErrNoNode
	}
	return n, err
}

// look returns the node of the current holder. It reads the folder before the node, so if the holder changes in
// between, the version is too old, and the deletion fails.
func (ephemeral) look(ctx context.Context, g *generation, dir string) (node, error) {
	folder, err := g.stat(ctx, dir)
	if err != nil {
		return node{}, err
	}
	data, stat, err := g.get(ctx, dir+"/"+ephemeralName)
	if err != nil {
		return node{}, err
	}
	guid, _ := parseData(data)
	return node{
		dir: dir, name: ephemeralName, guid: guid, czxid: stat.Czxid, clock: stat.Ctime, session: stat.EphemeralOwner,
		version: folder.Version, versionFrom: g,
	}, nil
}

// delete is step 3, in one round trip. If the version of the folder is from an earlier generation, find first reads it,
// in two more round trips. If the folder has another version now, find and a second deletion follow, in three more each
// time.
func (r ephemeral) delete(ctx context.Context, g *generation, n node) error {
	var err error
	for range tries {
		if n.versionFrom != g {
			found, err := ask(ctx, g, 0, func() (node, error) { return r.find(ctx, g, n.dir, n.guid) }, nil)
			if err != nil {
				return err
			}
			n = found
		}
		_, err = ask(ctx, g, 0, func() ([]zk.MultiResponse, error) {
			done, err := g.conn.Multi(
				&zk.CheckVersionRequest{Path: n.dir, Version: n.version},
				&zk.DeleteRequest{Path: n.path(), Version: -1},
			)
			return done, repliedAll(n.path(), []string{"read", "delete"}, done, err)
		}, nil)
		if !errors.Is(err, zk.ErrBadVersion) {
			return err
		}
		n.versionFrom = nil // another contender has the key, or an operator wrote to the folder
	}
	return err
}

// parseData parses the data that create wrote into the node. If another program wrote the data, they contain no guid,
// and all of them count as the owner.
func parseData(data []byte) (guid, owner string) {
	guid, owner, found := strings.Cut(string(data), " ")
	if !found || uuid.Validate(guid) != nil {
		return "", string(data)
	}
	return guid, owner
}

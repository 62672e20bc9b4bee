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

// A recipe is the algorithm of one lock of this package. The locks share the rest: sessions and their loss, the
// repetition of interrupted requests, and the errors. A node that is passed to a recipe may belong to an earlier
// generation.
type recipe interface {
	// suffix is appended to the name of the key's folder.
	suffix() string
	// newNode returns the name, the data and the flags of our node. The server may append a sequence to the name.
	newNode(guid, owner string) (name, data string, flags int32)
	// enter asks for the key, with attempt.createNode. It returns our node, and whether the key is ours. If not,
	// awaitTurn gets own; without a queue, own is the zero node. After an error there is no node, or it is being
	// deleted.
	enter(ctx context.Context, a *attempt) (own node, ours bool, err error)
	// awaitTurn waits until the key is ours, and returns the node with which we hold it. After an error it returns the
	// node that the caller must delete, if there is one. The error is errAgain if own has vanished.
	awaitTurn(ctx context.Context, a *attempt, own node) (node, error)
	// find searches for the node that was created with guid. The error is zk.ErrNoNode if there is none.
	find(ctx context.Context, g *generation, dir, guid string) (node, error)
	// delete deletes n, and no other node. A node without a name is found by its guid. delete never repeats a deletion
	// that got no reply. So if the error is zk.ErrNoNode, n does not exist, or had been deleted by another client or
	// with its session.
	delete(ctx context.Context, g *generation, n node) error
	// contenders returns up to most nodes in a folder, the holder's first. There need be no folder.
	contenders(ctx context.Context, g *generation, dir string, most int) ([]node, error)
}

// A node is our place in the queue of a folder, or the lock itself; or another contender's.
type node struct {
	dir, name string // name is empty if the reply to create is lost
	guid      string // part of the node's name or data, which identifies a node without a name
	owner     string // Options.Owner of the contender; not set by create
	czxid     int64  // the transaction that created the node
	clock     int64  // the server's clock at that transaction, in milliseconds
	fence     lock.Fence
	session   int64 // the session that owns the node; 0: none, the node is not ephemeral
	alone     bool  // the node was the only child when it was created, so no contender is ahead
	version   int32 // of the folder, after the transaction that created the node; only Ephemeral uses it
	// until is the time until which the request to create a node without a name may still arrive. After that its
	// session has expired, and a node would be removed with the session.
	until time.Time
}

func (n node) path() string { return n.dir + "/" + n.name }

// A locker is what Sequential and Ephemeral have in common. In inspect.go are its methods for people.
type locker struct {
	session *Session
	recipe  recipe
}

// Acquire waits for key until ctx ends; see lock.Locker. Options.Owner is written into the node for others to read.
// If there is no connection within Config.ConnectTimeout, or the server has not answered for 2.5 s, the error matches
// lock.ErrDown. Keys are any strings of 1 to 1024 bytes.
func (l locker) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	if err := l.session.life.MayAcquire(ctx, key); err != nil {
		return nil, err
	}
	ctx, stop := l.session.life.Wait(ctx)
	defer stop()
	for range tries {
		var lease *lock.Lease
		g, err := l.session.usable(ctx)
		if err == nil {
			a := &attempt{locker: l, g: g, key: key, dir: l.folder(key), options: o}
			lease, err = a.run(ctx)
		}
		if err == nil {
			return lease, nil
		}
		if !errors.Is(err, errAgain) {
			return nil, fmt.Errorf("acquire lock %q: %w", key, err)
		}
	}
	down := driver.NewDown("zookeeper", "session-does-not-last")
	return nil, fmt.Errorf("acquire lock %q: %w", key, errors.Join(down, errAgain))
}

// An attempt is one request and one wait for a key, in one generation.
type attempt struct {
	locker
	g        *generation
	key, dir string
	options  lock.Options
	held     *lock.HeldError // the holder that it waits for; nil if the key was not seen to be held
}

// run asks for the key and waits for it. If it returns an error, the attempt has left nothing behind, or only an
// orphan.
func (a *attempt) run(ctx context.Context) (*lock.Lease, error) {
	bound, cancel := a.g.bound(ctx)
	defer cancel()
	called := a.session.config.Called
	ended := called(bound, "enter")
	own, ours, err := node{}, false, a.checkFree(bound)
	if err == nil {
		own, ours, err = a.recipe.enter(bound, a)
	}
	ended(err)
	if err == nil && !ours {
		ended = called(bound, "wait")
		own, err = a.recipe.awaitTurn(bound, a, own)
		ended(err)
	}
	if err == nil && a.g.loss() == nil {
		return a.grant(own), nil
	}
	if own.name != "" {
		a.withdraw(own)
	}
	switch {
	case a.held != nil && ctx.Err() != nil:
		return nil, errors.Join(a.held, context.Cause(ctx))
	case ctx.Err() == nil && (errors.Is(err, errAgain) || a.g.over.Err() != nil):
		return nil, errAgain
	}
	return nil, a.session.explain(ctx, err)
}

// checkFree returns a HeldError if the key of a try is held. Creating a node and deleting it again would cost two
// transactions of the whole ensemble for each failed try.
func (a *attempt) checkFree(ctx context.Context) error {
	if !a.options.TryOnce {
		return nil
	}
	first, err := a.recipe.contenders(ctx, a.g, a.dir, 1)
	if err == nil && len(first) > 0 {
		err = &lock.HeldError{Key: a.key, Holder: first[0].owner}
	}
	return err
}

// createNode creates our node, and the folder if there is none, and sets the node's fence. After an error there is no
// node, or it is an orphan.
func (a *attempt) createNode(ctx context.Context) (n node, err error) {
	for range tries {
		var r *fenceRecord
		if r, err = a.g.fenceRecord(ctx); err != nil {
			return node{}, err
		}
		guid := uuid.NewString()
		n, err = a.sendCreate(ctx, r, guid)
		if !answered(err) { // If the node exists, a second node would wait behind it for ever.
			n, err = a.findUnanswered(ctx, guid)
		}
		switch {
		case err == nil:
			if n.fence, err = a.g.fence(ctx, n.czxid, n.clock); err != nil {
				a.withdraw(n)
				return node{}, err
			}
			return n, nil
		case errors.Is(err, errRecordChanged):
			a.g.record.CompareAndSwap(r, nil)
		case errors.Is(err, zk.ErrNoNode):
			// The folder does not exist: it was never made, or the server has just removed it because it was empty. Or
			// a node was not found.
			if failed := a.g.makeFolder(ctx, a.dir); failed != nil {
				return node{}, failed
			}
		default:
			return node{}, err
		}
	}
	return node{}, err
}

// sendCreate sends the transaction that creates our node, once. The transaction also makes an empty write to the
// folder, because the reply to this write contains the folder's state after the create: if our node is the only child,
// no contender is ahead, and we need not list the folder. The same transaction modified the folder, so its Mzxid is the
// node's czxid, from which the fence is made. The transaction has the condition that the record of fences is still r;
// otherwise the error is errRecordChanged.
//
// If ctx ends before the reply, it waits for lock.ReleaseTimeout longer, so that the caller can delete the node.
func (a *attempt) sendCreate(ctx context.Context, r *fenceRecord, guid string) (node, error) {
	name, data, flags := a.recipe.newNode(guid, a.options.Owner)
	done, err := a.g.transact(ctx, lock.ReleaseTimeout, a.dir, []string{"create", "write", "read"},
		&zk.CreateRequest{Path: a.dir + "/" + name, Data: []byte(data), Acl: a.g.s.acl(), Flags: flags},
		&zk.SetDataRequest{Path: a.dir, Version: -1},
		&zk.CheckVersionRequest{Path: r.path, Version: r.version},
	)
	switch {
	case err == nil:
		folder := done[1].Stat
		return node{
			dir: a.dir, name: strings.TrimPrefix(done[0].String, a.dir+"/"), guid: guid,
			czxid: folder.Mzxid, clock: folder.Mtime, session: a.g.now().id,
			alone: folder.NumChildren == 1, version: folder.Version,
		}, nil
	case len(done) > 2 && (errors.Is(done[2].Error, zk.ErrNoNode) || errors.Is(done[2].Error, zk.ErrBadVersion)):
		return node{}, fmt.Errorf("%w: %w", errRecordChanged, err)
	}
	return node{}, err
}

// findUnanswered searches for the node of a create without a reply. The node is ours only if this session owns it. The
// node of an earlier session would be removed while we rely on it (CURATOR-604). A generation is one session, so there
// should be no such node, but findUnanswered checks it. If there is no node, the request may still be on its way, so
// the search continues in the background.
func (a *attempt) findUnanswered(ctx context.Context, guid string) (node, error) {
	err := a.g.waitForLink(ctx)
	var n node
	if err == nil {
		n, err = a.recipe.find(ctx, a.g, a.dir, guid)
	}
	if err == nil && n.session != a.g.now().id {
		err = zk.ErrNoNode
	}
	if err != nil {
		a.sweep(node{dir: a.dir, guid: guid, until: time.Now().Add(a.g.now().timeout)})
		return node{}, err
	}
	return n, nil
}

// grant returns the lease of the holder with the node own. The lease is lost with the generation or with the node.
func (a *attempt) grant(own node) *lock.Lease {
	g := a.g
	var stop, ignore func() bool
	lease, lost := lock.NewLease(a.key, own.fence, func(ctx context.Context) error {
		stop()
		ignore()
		loss := g.loss()
		if err := a.release(ctx, own); loss == nil {
			return err
		}
		return loss
	})
	// Linger, because the node of an abandoned lease would otherwise stay as long as the session.
	lease.Linger(g.now().timeout)
	stop = context.AfterFunc(g.over, func() { lost(context.Cause(g.over)) })
	ignore = g.watchHolder(own, lease, lost)
	return lease
}

// release deletes a node of ours. The error is errNodeGone if the node did not exist any more. After any other error
// the node is an orphan.
func (l locker) release(ctx context.Context, own node) error {
	g := l.session.current.Load()
	var err error = errNoConnection
	if g.now().usable() {
		err = l.recipe.delete(ctx, g, own)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, zk.ErrNoNode) {
		return errNodeGone
	}
	l.sweep(own)
	return l.session.down(err)
}

// withdraw deletes the node of an attempt that gave up, at once if the server answers, otherwise in the background.
func (a *attempt) withdraw(own node) {
	ctx, cancel := context.WithTimeout(context.Background(), lock.ReleaseTimeout)
	defer cancel()
	_ = a.release(ctx, own) // after an error the node is an orphan
}

// sweep deletes an orphan in the background, for as long as the Session is open. An orphan is a node that could not be
// deleted in time. While its session lives, such a node would stay at the head of its queue, and all contenders would
// wait for it (CURATOR-678). sweep may delete it in any generation: a recipe deletes no other node.
func (l locker) sweep(orphan node) {
	l.session.life.Repeat(time.Now().Add(driver.Forever), func(ctx context.Context) (done bool) {
		g, err := l.session.usable(ctx)
		if err != nil {
			return false
		}
		late := time.Now().After(orphan.until) // read before the search, which finds nothing if the node comes later
		err = l.recipe.delete(ctx, g, orphan)
		if errors.Is(err, zk.ErrNoNode) {
			return late
		}
		if err != nil && answered(err) {
			l.session.config.Logger.Error("zookeeper lock node cannot be deleted", "folder", orphan.dir, "error", err)
		}
		return answered(err)
	})
}

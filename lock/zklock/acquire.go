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

// A recipe is the algorithm of one lock of this package. The locks share the rest: sessions and their loss, the
// repetition of interrupted requests, and the errors. A node that is passed to a recipe may belong to an earlier
// generation.
type recipe interface {
	// suffix is appended to the name of the key's folder.
	suffix() string
	// enter requests the key. It returns our node, and whether the key is ours. If the key is not ours, the caller
	// passes own to wait; without a queue, own is the zero node. After an error there is no node, or it is being
	// deleted.
	enter(ctx context.Context, a *attempt) (own node, ours bool, err error)
	// wait waits until the key is ours, and returns the node with which we hold it. The error is errAgain if own has
	// vanished. After any other error the caller deletes own.
	wait(ctx context.Context, a *attempt, own node) (node, error)
	// create sends one request to create our node, once. The error is errRecordChanged if the record of fences has
	// changed since r was read.
	create(g *generation, r *fenceRecord, dir, guid, owner string) (node, error)
	// find searches for the node that create has made with guid. The error is zk.ErrNoNode if there is none.
	find(ctx context.Context, g *generation, dir, guid string) (node, error)
	// delete deletes n, and no other node. It never repeats a deletion that got no reply. So if the error is
	// zk.ErrNoNode, n had been deleted by another client or with its session.
	delete(ctx context.Context, g *generation, n node) error
}

// A node is our place in the queue of a folder, or the lock itself.
type node struct {
	dir, name string
	guid      string // part of the node's name or data; identifies the node if the reply to create is lost
	czxid     int64  // the transaction that created the node
	clock     int64  // the server's clock at that transaction, in milliseconds
	fence     lock.Fence
	session   int64 // the session that owns the node; 0: none, the node is not ephemeral
	alone     bool  // the node was the only child when it was created, so no contender is ahead

	version     int32       // version of the folder, after the transaction that created the node
	versionFrom *generation // the generation that received version
}

func (n node) path() string { return n.dir + "/" + n.name }

// errAgain means that our node was removed with its session, or deleted by an operator. Then the acquisition is
// retried.
var errAgain = errors.New("the place in the queue was lost")

// errNoLock means that a node without a session has the path of the lock. Nobody would ever release it.
var errNoLock = errors.New("the lock's place is taken by a node that is not ephemeral")

// An acquisition is one Acquire: up to tries attempts, each in one generation.
type acquisition struct {
	s        *Session
	recipe   recipe
	dir, key string
	options  lock.Options
	attempts int // number of attempts begun
}

func (s *Session) acquire(ctx context.Context, r recipe, key string, o lock.Options) (*lock.Lease, error) {
	dir, err := s.folder(key)
	if err != nil {
		return nil, err
	}
	q := &acquisition{s: s, recipe: r, dir: dir + r.suffix(), key: key, options: o}
	if ctx.Err() != nil {
		return nil, q.failure(context.Cause(ctx))
	}
	a, err := q.enter(ctx)
	if err != nil {
		return nil, err
	}
	return q.wait(ctx, a)
}

// enter makes attempts until one has a lease, or has to wait.
func (q *acquisition) enter(ctx context.Context) (*attempt, error) {
	for q.attempts < tries {
		q.attempts++
		g, err := q.s.usable(ctx)
		if err != nil {
			return nil, q.failure(err)
		}
		a := &attempt{acquisition: q, g: g}
		if err = a.enter(ctx); err == nil {
			return a, nil
		}
		if !errors.Is(err, errAgain) {
			return nil, q.failure(err)
		}
	}
	down := lock.NewDown("zookeeper", "session-does-not-last")
	return nil, q.failure(errors.Join(down, errAgain))
}

// wait waits until a, or a new attempt if a loses its place in the queue, has a lease.
func (q *acquisition) wait(ctx context.Context, a *attempt) (*lock.Lease, error) {
	for a.lease == nil {
		err := a.wait(ctx)
		if errors.Is(err, errAgain) {
			if a, err = q.enter(ctx); err != nil {
				return nil, err
			}
		} else if err != nil {
			return nil, q.failure(err)
		}
	}
	return a.lease, nil
}

func (q *acquisition) failure(err error) error { return fmt.Errorf("acquire lock %q: %w", q.key, err) }

// An attempt is one wait for a key, in one generation.
type attempt struct {
	*acquisition
	g *generation

	place  node        // while the key is not ours, our node, if the recipe has one
	lease  *lock.Lease // nil: the key is not ours yet
	held   bool        // the key was seen to be held by another
	holder string      // the name of this holder, if it was read
}

// enter requests the key. If it returns nil, the attempt has a lease, or has to wait.
func (a *attempt) enter(ctx context.Context) error {
	return a.run(ctx, "enter", func(ctx context.Context) error {
		own, ours, err := a.recipe.enter(ctx, a)
		if err == nil && ours {
			a.lease = a.g.lease(a.recipe, a.key, own)
		} else if err == nil {
			a.place = own
		}
		return err
	})
}

// wait waits until the attempt has a lease.
func (a *attempt) wait(ctx context.Context) error {
	return a.run(ctx, "wait", func(ctx context.Context) error {
		own, err := a.recipe.wait(ctx, a, a.place)
		switch {
		case err == nil:
			a.lease = a.g.lease(a.recipe, a.key, own)
		case !errors.Is(err, errAgain):
			a.leave()
		}
		a.place = node{}
		return err
	})
}

// run runs a step of the attempt until ctx ends. If it returns an error, the attempt has left nothing behind, except
// that a clean-up longer than a second continues in the background.
func (a *attempt) run(ctx context.Context, name string, step func(context.Context) error) (err error) {
	if called := a.g.s.config.Called; called != nil {
		ended := called(ctx, name)
		defer func() { ended(err) }()
	}
	bound, cancel := a.g.bound(ctx)
	defer cancel()
	done, err := ask(bound, a.g, lock.ReleaseTimeout, func() (*attempt, error) { return a, step(bound) },
		(*attempt).leave)
	switch {
	case err == nil && a.g.loss() == nil:
		return nil
	case err == nil:
		a.leave()
		return errAgain
	case done != nil && a.held && ctx.Err() != nil:
		return errors.Join(&lock.HeldError{Key: a.key, Holder: a.holder}, context.Cause(ctx))
	case errors.Is(err, errNotBegun):
		a.leave()
	}
	return explain(ctx, a.g, err)
}

// leave releases the lease of the attempt, or deletes the node with which it waits.
func (a *attempt) leave() {
	switch {
	case a.lease != nil:
		_ = a.lease.Release()
		a.lease = nil
	case a.place.name != "":
		a.abandon(a.place)
	}
}

// lease returns the lease of the holder with the node own. The lease is lost with the generation or with the node.
func (g *generation) lease(r recipe, key string, own node) *lock.Lease {
	stop, ignore := func() bool { return false }, func() bool { return false }
	lease, lost := lock.NewLease(key, own.fence, func(ctx context.Context) error {
		stop()
		ignore()
		loss := g.loss()
		if err := g.s.deleteNode(ctx, r, own); loss == nil {
			return err
		}
		return loss
	})
	// Linger, because the node of an abandoned lease would otherwise stay as long as the session.
	g.s.mu.Lock()
	lease.Linger(g.timeout)
	g.s.mu.Unlock()
	stop = context.AfterFunc(g.over, func() { lost(context.Cause(g.over)) })
	ignore = g.watchHolder(own, lease, lost)
	return lease
}

// create creates our node, and the folder if there is none, and sets the node's fence. After an error there is no node,
// or it is an orphan that is being deleted.
func (a *attempt) create(ctx context.Context) (node, error) {
	n, err := a.createNode(ctx)
	if err != nil {
		return n, err
	}
	if n.fence, err = a.g.fence(ctx, n.czxid, n.clock); err != nil {
		a.abandon(n)
		return node{}, err
	}
	return n, nil
}

func (a *attempt) createNode(ctx context.Context) (node, error) {
	var err error
	for range tries {
		if n := a.g.s.orphans.count(); n >= maxOrphans {
			return node{}, lock.NewDown("zookeeper", "cleaning-up", "n", n)
		}
		var r *fenceRecord
		if r, err = a.g.fenceRecord(ctx); err != nil {
			return node{}, err
		}
		guid := uuid.NewString()
		var n node
		n, err = a.recipe.create(a.g, r, a.dir, guid, a.options.Owner)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, errRecordChanged):
			a.g.forgetRecord(r)
			continue
		case errors.Is(err, zk.ErrNoNode):
			// The folder does not exist: it was never made, or the server has just removed it because it was empty.
			if failed := a.g.makeFolder(ctx, a.dir); failed != nil {
				return node{}, failed
			}
			continue
		case answered(err):
			return node{}, err
		case ctx.Err() != nil:
			a.g.s.orphans.add(a.unanswered(guid))
			return node{}, err
		}
		// The connection broke before the reply. If the node exists, a second node would wait behind it for ever.
		n, findErr := a.recover(ctx, guid)
		if findErr == nil || !errors.Is(findErr, zk.ErrNoNode) {
			return n, findErr
		}
	}
	return node{}, err
}

// recover searches for the node of a create without a reply. The node is ours only if this session owns it. The node of
// an earlier session would be removed while we rely on it (CURATOR-604). A generation is one session, so there should
// be no such node, but recover checks it. If there is no node, the request may still be on its way, so the search
// continues in the background.
func (a *attempt) recover(ctx context.Context, guid string) (node, error) {
	err := a.g.waitForLink(ctx)
	var n node
	if err == nil {
		n, err = a.recipe.find(ctx, a.g, a.dir, guid)
	}
	a.g.s.mu.Lock()
	own := a.g.id
	a.g.s.mu.Unlock()
	if err == nil && n.session != own {
		err = zk.ErrNoNode
	}
	if err != nil {
		a.g.s.orphans.add(a.unanswered(guid))
		return node{}, err
	}
	return n, nil
}

// unanswered returns the orphan that a create without a reply may leave.
func (a *attempt) unanswered(guid string) orphan {
	a.g.s.mu.Lock()
	defer a.g.s.mu.Unlock()
	return orphan{recipe: a.recipe, node: node{dir: a.dir, guid: guid}, until: time.Now().Add(a.g.timeout)}
}

// abandon deletes the node of an attempt that gave up, at once if the server answers, otherwise in the background.
func (a *attempt) abandon(own node) {
	if !a.g.responsive() {
		a.g.s.orphans.add(orphan{recipe: a.recipe, node: own})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lock.ReleaseTimeout)
	defer cancel()
	_ = a.g.s.deleteNode(ctx, a.recipe, own) // after an error the node is an orphan
}

// explain converts err to one of the errors of lock.Locker, or to errAgain.
func explain(ctx context.Context, g *generation, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, lock.ErrHeld):
		return err
	case cause != nil:
		return fmt.Errorf("no answer of ZooKeeper: %w", cause) // the server may be up
	case g.s.ctx.Err() != nil:
		return errors.Join(errNoConnection, errClosed)
	case g.over.Err() != nil:
		return errAgain
	case errors.Is(err, errAgain), errors.Is(err, lock.ErrDown):
		return err
	case answered(err), errors.Is(err, errNoLock):
		return g.s.refused(err)
	default:
		return errors.Join(g.s.noConnection(), err)
	}
}

// refused returns the error for a reply that no retry will change, with instructions for a repair. The reason is shown
// to clients, so it contains only the configured root. The path of the node is in the joined error.
func (s *Session) refused(err error) error {
	root := max(s.config.Root, "/")
	var reply *replyError
	if !errors.As(err, &reply) {
		reply = &replyError{err: err} // errNoLock
	}
	var down *lock.DownError
	switch number := code(reply.err); {
	case errors.Is(err, zk.ErrNoAuth):
		s.logDenial(err)
		down = lock.NewDown("zookeeper", "not-allowed", "root", root, "right", reply.right)
	case errors.Is(err, zk.ErrInvalidACL):
		s.logDenial(err)
		down = errNoIdentity
	case number == authenticationRequired: // link.Read logs it
		down = errNoIdentity
	case number == quotaExceeded:
		down = lock.NewDown("zookeeper", "quota-exceeded", "root", root)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrNotEmpty), errors.Is(err, errNoLock):
		down = lock.NewDown("zookeeper", "foreign-nodes", "root", root)
	case number != 0:
		down = lock.NewDown("zookeeper", "refuses", "code", number)
	default:
		down = lock.NewDown("zookeeper", "refuses", "code", strings.TrimPrefix(reply.err.Error(), "zk: "))
	}
	down.Denied = true
	return errors.Join(down, err)
}

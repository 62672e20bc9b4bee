package zklock

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// A rule is what the locks of this package differ in. The rest they share: sessions and their loss, the deletion of what was made, and
// the answers.
type rule interface {
	form
	// take waits until the key is ours, and returns the node that says so. On failure there is none. See read.
	take(ctx context.Context, t *turn) (node, error)
}

// errAgain is for when what we had has vanished: with its session, or by an operator's hand.
var errAgain = errors.New("the place in the queue was lost")

// acquire waits for key, whose folder is dir, until ctx ends.
func (s *Session) acquire(ctx context.Context, r rule, key, dir string, o lock.Options) (*lock.Lease, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("acquire lock %q: %w", key, context.Cause(ctx))
	}
	var err error
	for range tries {
		var g *generation
		if g, err = s.usable(ctx); err != nil {
			break
		}
		var lease *lock.Lease
		if lease, err = g.attempt(ctx, r, key, dir, o); err == nil {
			return lease, nil
		}
		if !errors.Is(err, errAgain) {
			break
		}
	}
	if errors.Is(err, errAgain) {
		err = errors.Join(&lock.DownError{Server: "zookeeper", Reason: "the session does not last"}, err)
	}
	return nil, fmt.Errorf("acquire lock %q: %w", key, err)
}

// attempt acquires in one generation. Whatever ends the wait, our node is deleted before it returns, or within a second of the end
// it is left to those who delete in the background.
func (g *generation) attempt(ctx context.Context, r rule, key, dir string, o lock.Options) (*lock.Lease, error) {
	bound, cancel := g.bound(ctx)
	defer cancel()
	t, err := ask(bound, g, lock.ReleaseTimeout, func() (*turn, error) {
		t := &turn{g: g, dir: dir, key: key, options: o}
		own, err := r.take(bound, t)
		if err == nil {
			t.lease = g.lease(r, key, own)
		}
		return t, err
	}, func(t *turn) {
		if t.lease != nil {
			_ = t.lease.Release()
		}
	})
	switch {
	case err == nil && g.lasts() == nil:
		return t.lease, nil
	case err == nil:
		_ = t.lease.Release()
		return nil, errAgain
	case t != nil && t.held && ctx.Err() != nil:
		return nil, errors.Join(&lock.HeldError{Key: key, Holder: t.holder}, context.Cause(ctx))
	default:
		return nil, explain(ctx, g, err)
	}
}

// lease is the lease of the holder's node, lost with the generation or with the node.
func (g *generation) lease(f form, key string, own node) *lock.Lease {
	var stop, ignore func() bool
	lease, lost := lock.NewLease(key, own.fence, func(ctx context.Context) error {
		stop()
		ignore()
		loss := g.lasts()
		if err := g.s.remove(ctx, f, own); loss == nil {
			return err
		}
		return loss
	})
	// The server would keep the node for as long as the session lives.
	g.s.mu.Lock()
	lease.Linger(g.timeout)
	g.s.mu.Unlock()
	stop = context.AfterFunc(g.over, func() { lost(context.Cause(g.over)) })
	ignore = g.mind(own, lease, lost)
	return lease
}

// A turn is one wait for a key.
type turn struct {
	g        *generation
	dir, key string
	options  lock.Options

	held   bool   // another was seen to hold the key
	holder string // who, if that was told on the way
	lease  *lock.Lease
}

// explain is err in the words of lock.Locker, or errAgain.
func explain(ctx context.Context, g *generation, err error) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(err, lock.ErrHeld):
		return err
	case cause != nil:
		return errors.Join(&lock.DownError{Server: "zookeeper", Reason: "no answer before the wait ended"}, cause)
	case g.s.ctx.Err() != nil:
		return errors.Join(errNoConnection, errClosed)
	case g.over.Err() != nil:
		return errAgain
	case errors.Is(err, errAgain), errors.Is(err, lock.ErrDown):
		return err
	case answered(err), errors.Is(err, errNoLock):
		return g.s.refused(err)
	default:
		return errors.Join(errNoConnection, err)
	}
}

// refused is an answer that no second try will change, with what mends it. What is shown names the root alone, which is configured; the
// path of the node is in the error beside it.
func (s *Session) refused(err error) error {
	root := max(s.config.Root, "/")
	reason := "it refuses what a lock needs"
	switch {
	case errors.Is(err, zk.ErrNoAuth), errors.Is(err, zk.ErrInvalidACL):
		reason = "it does not allow this service to lock under " + root +
			": give it all permissions there and below (zkCli: setAcl -R " + root + " world:anyone:cdrwa), or configure another root"
	case errors.Is(err, zk.ErrNoChildrenForEphemerals), errors.Is(err, zk.ErrNotEmpty), errors.Is(err, errNoLock):
		reason = "another program keeps its own nodes where the locks under " + root + " belong: delete them, or configure another root"
	}
	return errors.Join(&lock.DownError{Server: "zookeeper", Reason: reason}, err)
}

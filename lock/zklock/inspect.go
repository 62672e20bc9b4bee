package zklock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// Inspect tells the holder and the waiters in order, at the price of Contenders. Since is when each queued up, by the server's clock, also of
// the holder: ZooKeeper does not note when its turn came. A session has no known remainder: it lasts as long as its process.
func (q *Sequential) Inspect(ctx context.Context, key string) (lock.Standing, error) {
	s := lock.Standing{Scope: lock.Cluster}
	all, err := q.Contenders(ctx, key)
	for i, c := range all {
		if i == 0 {
			s.Holder = &lock.Contender{Who: c.Who, Since: c.Since, Fence: c.Fence}
		} else {
			s.Waiters = append(s.Waiters, lock.Contender{Who: c.Who, Since: c.Since})
		}
	}
	return s, err
}

// Evict deletes the node of the holder, and so lets the next one in. The holder, if it is one of this package, learns of it within beatEvery
// (see mind); Curator's does not look. The fence lies between that of the node that was deleted and the next one's.
//
// Round trips: those of Contenders and one more; for a free key those of a lease that is acquired and released, for its fence.
func (q *Sequential) Evict(ctx context.Context, key string) (lock.Fence, error) {
	for range tries {
		all, err := q.Contenders(ctx, key)
		switch {
		case err != nil:
			return lock.NoFence, err
		case len(all) > 0:
			return all[0].Fence + span, q.expel(ctx, key, all[0].Node)
		}
		lease, err := q.Acquire(lock.NoWait(ctx), key)
		switch {
		case err == nil:
			return lease.Fence(), lease.Release()
		case !errors.Is(err, lock.ErrHeld):
			return lock.NoFence, err
		}
	}
	return lock.NoFence, fmt.Errorf("evict the holder of lock %q: %w, and free again, too fast to be evicted", key, lock.ErrHeld)
}

// expel deletes a node that another session made. If it is gone already, its holder gave the lock back.
func (q *Sequential) expel(ctx context.Context, key, path string) error {
	g, err := q.session.usable(ctx)
	if err == nil {
		bound, cancel := g.bound(ctx)
		defer cancel()
		if err = g.delete(bound, path); err == nil || errors.Is(err, zk.ErrNoNode) {
			return nil
		}
		if !answered(err) {
			err = errors.Join(errNoConnection, err)
		}
	}
	return fmt.Errorf("evict the holder of lock %q: %w", key, err)
}

// listers is how many folders Keys reads at the same time.
const listers = 32

// Keys lists the folders under Root that have a contender, one round trip each. Empty ones stay for a minute or so.
func (q *Sequential) Keys(ctx context.Context) ([]string, error) {
	g, err := q.session.usable(ctx)
	if err != nil {
		return nil, fmt.Errorf("list locks: %w", err)
	}
	bound, cancel := g.bound(ctx)
	defer cancel()
	keys, err := ask(bound, g, 0, func() ([]string, error) { return g.keys(bound) }, nil)
	if err != nil {
		return nil, fmt.Errorf("list locks: %w", explain(ctx, g, err))
	}
	return keys, nil
}

func (g *generation) keys(ctx context.Context) ([]string, error) {
	root := g.s.config.Root
	folders, err := g.children(ctx, max(root, "/"))
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var reads sync.WaitGroup
	turn := make(chan struct{}, listers)
	keys, errs := make([]string, len(folders)), make([]error, len(folders))
	for i, folder := range folders {
		key, err := url.PathUnescape(folder)
		if err != nil {
			continue // not made by escape
		}
		turn <- struct{}{}
		reads.Go(func() {
			defer func() { <-turn }()
			names, err := g.children(ctx, root+"/"+folder)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				errs[i] = err
			} else if len(contenders(names)) > 0 {
				keys[i] = key
			}
		})
	}
	reads.Wait()
	keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
	slices.Sort(keys)
	return keys, errors.Join(errs...)
}

var (
	_ lock.Inspector = (*Sequential)(nil)
	_ lock.Evictor   = (*Sequential)(nil)
	_ lock.Lister    = (*Sequential)(nil)
)

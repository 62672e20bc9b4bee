package zklock

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
	"example.com/stock/lock/driver"
)

var (
	_ driver.Inspector   = (*Sequential)(nil)
	_ driver.Evictor     = (*Sequential)(nil)
	_ driver.Lister      = (*Sequential)(nil)
	_ driver.FenceRanger = (*Sequential)(nil)
	_ driver.Inspector   = (*Ephemeral)(nil)
)

// InspectAll returns, for each of keys, the holder and the waiters in the order in which they will get the key. Since
// is the time when each queued up, by the server's clock, even for the holder, because ZooKeeper does not store the
// time when it got the lock. The remaining time is not known, because a session lasts as long as its process. It omits
// contenders that leave meanwhile, and the waiters of Ephemeral, of which the server knows only the watches.
//
// It costs one round trip for each key and, with Sequential, for each contender, and two for the fences. The requests
// for 32 keys are under way together.
func (l locker) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	for _, key := range keys {
		if err := driver.CheckKey(key); err != nil {
			return nil, err
		}
	}
	return inquire(ctx, l.session, "inspect locks", func(ctx context.Context, g *generation) ([]lock.State, error) {
		all := make([][]node, len(keys))
		err := atOnce(len(keys), func(i int) (err error) {
			all[i], err = l.recipe.contenders(ctx, g, l.folder(keys[i]), math.MaxInt)
			return err
		})
		if err != nil {
			return nil, err
		}
		r, err := g.readRecord(ctx) // now it has the fence of each holder that has one
		if errors.Is(err, zk.ErrNoNode) {
			r, err = &fenceRecord{}, nil
		}
		if err != nil {
			return nil, err
		}
		states := make([]lock.State, len(keys))
		for i, contenders := range all {
			states[i] = stateOf(contenders, r)
		}
		return states, nil
	})
}

// stateOf returns the state of a key. The holder's fence is lock.NoFence if it has none yet, or if a lock was requested
// after an election since.
func stateOf(contenders []node, r *fenceRecord) (s lock.State) {
	for i, n := range contenders {
		c := lock.Contender{Who: n.owner, Since: time.UnixMilli(n.clock)}
		if i > 0 {
			s.Waiters = append(s.Waiters, c)
			continue
		}
		c.Fence, _ = r.fence(n.czxid)
		s.Holder = &c
	}
	return s
}

// contenders reads the nodes of the queue, in parallel.
func (sequential) contenders(ctx context.Context, g *generation, dir string, most int) ([]node, error) {
	queue, err := readQueue(ctx, g, dir)
	if err != nil {
		return nil, unlessGone(err)
	}
	queue = queue[:min(most, len(queue))]
	all := make([]node, len(queue))
	err = atOnce(len(queue), func(i int) (err error) {
		all[i], err = g.read(ctx, dir, queue[i].name)
		return unlessGone(err)
	})
	return slices.DeleteFunc(all, func(n node) bool { return n.name == "" }), err
}

// contenders returns the holder. If its node is not ephemeral, the error is errNoLock.
func (ephemeral) contenders(ctx context.Context, g *generation, dir string, _ int) ([]node, error) {
	n, err := g.readLock(ctx, dir)
	if err != nil {
		return nil, unlessGone(err)
	}
	if n.session == 0 {
		err = fmt.Errorf("%w: %s", errNoLock, n.path())
	}
	return []node{n}, err
}

// inquire calls question, which reads from the server. The error matches lock.ErrDown if there is no reply.
func inquire[T any](
	ctx context.Context, s *Session, doing string, question func(context.Context, *generation) (T, error),
) (T, error) {
	var none T
	g, err := s.usable(ctx)
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, err)
	}
	bound, cancel := g.bound(ctx)
	defer cancel()
	answer, err := question(bound, g)
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, s.explain(ctx, err))
	}
	return answer, nil
}

// Evict deletes the node of the holder, so that the next waiter gets the key, or all waiters of Ephemeral race for it.
// If the holder uses this package, its lease ends within heartbeatInterval (see watchHolder). Curator's holders do not
// notice. The returned fence lies between the fences of the deleted node and of the next one. Evict also deletes a node
// that no lock has made, because it would block all contenders.
//
// Round trips: two to read the holder, or one with Ephemeral, and one to delete its node, or three with Ephemeral. For
// a free key Evict acquires and releases a lease to get a fence.
func (l locker) Evict(ctx context.Context, key string) (lock.Fence, error) {
	if err := driver.CheckKey(key); err != nil {
		return lock.NoFence, err
	}
	dir := l.folder(key)
	doing := fmt.Sprintf("evict the holder of lock %q", key)
	for range tries {
		evicted, err := inquire(ctx, l.session, doing, func(ctx context.Context, g *generation) (lock.Fence, error) {
			all, err := l.recipe.contenders(ctx, g, dir, 1)
			if len(all) == 0 || err != nil && !errors.Is(err, errNoLock) {
				return lock.NoFence, err
			}
			fence, err := g.fenceAfter(ctx, all[0])
			if err != nil {
				return lock.NoFence, err
			}
			return fence, unlessGone(l.recipe.delete(ctx, g, all[0]))
		})
		if err != nil || evicted != lock.NoFence {
			return evicted, err
		}
		lease, err := l.Acquire(ctx, key, lock.Options{TryOnce: true})
		switch {
		case err == nil:
			return lease.Fence(), lease.Release()
		case !errors.Is(err, lock.ErrHeld):
			return lock.NoFence, err
		}
	}
	return lock.NoFence, fmt.Errorf("%s: %w, and free again, too fast to be evicted", doing, lock.ErrHeld)
}

// Keys lists the keys whose folder under Root has a contender, with up to two round trips for each folder; empty ones
// exist for a minute.
func (l locker) Keys(ctx context.Context) ([]string, error) {
	return inquire(ctx, l.session, "list locks", func(ctx context.Context, g *generation) ([]string, error) {
		root := l.session.config.Root
		folders, err := g.children(ctx, max(root, "/"))
		if err != nil {
			return nil, unlessGone(err)
		}
		keys := make([]string, len(folders))
		err = atOnce(len(folders), func(i int) error {
			name, ours := strings.CutSuffix(folders[i], l.recipe.suffix())
			key, err := url.PathUnescape(name)
			if !ours || err != nil {
				return nil // not made by escape, or not for this lock
			}
			all, err := l.recipe.contenders(ctx, g, root+"/"+folders[i], 1)
			if len(all) > 0 {
				keys[i] = key
				return nil // also if a node that no lock has made is there
			}
			return err
		})
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
		slices.Sort(keys)
		return keys, err
	})
}

// readsAtOnce is how many keys or contenders are read at the same time.
const readsAtOnce = 32

// atOnce calls read with 0 to n-1, up to readsAtOnce at the same time, and joins the errors.
func atOnce(n int, read func(i int) error) error {
	var reads sync.WaitGroup
	places, errs := make(chan struct{}, readsAtOnce), make([]error, n)
	for i := range n {
		places <- struct{}{}
		reads.Go(func() {
			defer func() { <-places }()
			errs[i] = read(i)
		})
	}
	reads.Wait()
	return errors.Join(errs...)
}

package zklock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"example.com/stock/lock"
)

var (
	_ lock.Inspector = (*Sequential)(nil)
	_ lock.Evictor   = (*Sequential)(nil)
	_ lock.Lister    = (*Sequential)(nil)

	_ lock.Inspector = (*Ephemeral)(nil)
	_ lock.Evictor   = (*Ephemeral)(nil)
	_ lock.Lister    = (*Ephemeral)(nil)

	_ lock.BatchInspector = (*Sequential)(nil)
	_ lock.BatchInspector = (*Ephemeral)(nil)
)

// Contenders lists the holder of key and the waiters, in the order in which they will get the key. It costs one round
// trip for the list and one for each node, in parallel, and one for their fences if the record has changed. It omits
// contenders that leave meanwhile. The error matches lock.ErrDown if the server did not answer.
func (q *Sequential) Contenders(ctx context.Context, key string) ([]Contender, error) {
	dir, err := q.session.folder(key)
	if err != nil {
		return nil, err
	}
	list := func(ctx context.Context, g *generation) ([]Contender, error) {
		all, err := g.contenders(ctx, dir)
		if err == nil {
			err = g.fillFences(ctx, all)
		}
		return all, err
	}
	return inquire(ctx, q.session, fmt.Sprintf("list contenders of lock %q", key), list)
}

// contenders returns the contenders without their fences.
func (g *generation) contenders(ctx context.Context, dir string) ([]Contender, error) {
	names, err := g.children(ctx, dir)
	if err != nil {
		return nil, unlessGone(err)
	}
	queue := parseQueue(names)
	all, errs := make([]Contender, len(queue)), make([]error, len(queue))
	var reads sync.WaitGroup
	for i, n := range queue {
		reads.Go(func() { all[i], errs[i] = g.contender(ctx, dir+"/"+n.name) })
	}
	reads.Wait()
	return slices.DeleteFunc(all, func(c Contender) bool { return c.Node == "" }), errors.Join(errs...)
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
	answer, err := ask(bound, g, 0, func() (T, error) { return question(bound, g) }, nil)
	if err != nil {
		return none, fmt.Errorf("%s: %w", doing, explain(ctx, g, err))
	}
	return answer, nil
}

// Inspect returns the holder and the waiters in order, with the round trips of Contenders. Since is the time when each
// contender queued up, by the server's clock, even for the holder, because ZooKeeper does not store the time when it
// got the lock. The remaining time is not known, because a session lasts as long as its process.
func (q *Sequential) Inspect(ctx context.Context, key string) (lock.State, error) {
	all, err := q.Contenders(ctx, key)
	return stateOf(all), err
}

// InspectAll is Inspect for each of keys. The requests for 32 keys are under way together.
func (q *Sequential) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	read := func(ctx context.Context, g *generation, dir string) ([]Contender, error) {
		return g.contenders(ctx, dir)
	}
	return q.session.inspectAll(ctx, "", keys, read)
}

// Inspect returns the holder, in one read, and one more for its fence if the record has changed. It returns no
// waiters, because the server knows only their watches.
func (e *Ephemeral) Inspect(ctx context.Context, key string) (lock.State, error) {
	states, err := e.InspectAll(ctx, []string{key})
	if err != nil {
		return lock.State{Scope: lock.Cluster}, err
	}
	return states[0], nil
}

// InspectAll is Inspect for each of keys. The requests for 32 keys are under way together.
func (e *Ephemeral) InspectAll(ctx context.Context, keys []string) ([]lock.State, error) {
	read := func(ctx context.Context, g *generation, dir string) ([]Contender, error) {
		holder, err := ephemeral{}.holder(ctx, g, dir)
		if err != nil {
			return nil, unlessGone(err)
		}
		return []Contender{holder}, nil
	}
	return e.session.inspectAll(ctx, ephemeralSuffix, keys, read)
}

// inspectAll returns the states of keys. read returns the contenders of a folder without their fences.
func (s *Session) inspectAll(ctx context.Context, suffix string, keys []string,
	read func(ctx context.Context, g *generation, dir string) ([]Contender, error),
) ([]lock.State, error) {
	dirs := make([]string, len(keys))
	for i, key := range keys {
		dir, err := s.folder(key)
		if err != nil {
			return nil, err
		}
		dirs[i] = dir + suffix
	}
	doing := fmt.Sprintf("inspect %d locks", len(keys))
	if len(keys) == 1 {
		doing = fmt.Sprintf("inspect lock %q", keys[0])
	}
	return inquire(ctx, s, doing, func(ctx context.Context, g *generation) ([]lock.State, error) {
		found := make([][]Contender, len(dirs))
		err := atOnce(len(dirs), func(i int) (err error) {
			found[i], err = read(ctx, g, dirs[i])
			return err
		})
		if err == nil {
			err = g.fillFences(ctx, found...)
		}
		states := make([]lock.State, len(found))
		for i, all := range found {
			states[i] = stateOf(all)
		}
		return states, err
	})
}

// stateOf returns the state of a key with these contenders, in order.
func stateOf(all []Contender) lock.State {
	s := lock.State{Scope: lock.Cluster}
	for i, c := range all {
		if i == 0 {
			s.Holder = &lock.Contender{Who: c.Who, Since: c.Since, Fence: c.Fence}
		} else {
			s.Waiters = append(s.Waiters, lock.Contender{Who: c.Who, Since: c.Since})
		}
	}
	return s
}

// Evict deletes the node of the holder, so the next waiter gets the key. If the holder uses this package, its lease
// ends within heartbeatInterval (see watchHolder). Curator's holders do not notice. The returned fence lies between the
// fences of the deleted node and of the next one.
//
// Round trips: those of Contenders and one more. For a free key Evict acquires and releases a lease to get a fence.
func (q *Sequential) Evict(ctx context.Context, key string) (lock.Fence, error) {
	dir, err := q.session.folder(key)
	if err != nil {
		return lock.NoFence, err
	}
	return q.session.evict(ctx, q, key, sequential{}, func(ctx context.Context, g *generation) (node, error) {
		all, err := g.contenders(ctx, dir)
		if err != nil || len(all) == 0 {
			return node{}, err
		}
		first := all[0]
		name := strings.TrimPrefix(first.Node, dir+"/")
		return node{dir: dir, name: name, czxid: first.czxid, clock: first.Since.UnixMilli()}, nil
	})
}

// Evict deletes the node of the holder; see Sequential.Evict. All waiters then race for the key. It takes 3 round
// trips; a free key is treated as by Sequential. Evict also deletes a node that no lock has made, because it would
// block all contenders.
func (e *Ephemeral) Evict(ctx context.Context, key string) (lock.Fence, error) {
	dir, err := e.folder(key)
	if err != nil {
		return lock.NoFence, err
	}
	return e.session.evict(ctx, e, key, ephemeral{}, func(ctx context.Context, g *generation) (node, error) {
		n, err := ephemeral{}.look(ctx, g, dir)
		return n, unlessGone(err)
	})
}

// evict deletes the node that look returns, which is the holder's. If the key is free, evict acquires and releases it.
func (s *Session) evict(ctx context.Context, l lock.Locker, key string, r recipe,
	look func(context.Context, *generation) (node, error),
) (lock.Fence, error) {
	doing := fmt.Sprintf("evict the holder of lock %q", key)
	for range tries {
		evicted, err := inquire(ctx, s, doing, func(ctx context.Context, g *generation) (lock.Fence, error) {
			n, err := look(ctx, g)
			if err != nil || n.name == "" {
				return lock.NoFence, err
			}
			fence, err := g.fenceAfter(ctx, n.czxid, n.clock)
			if err != nil {
				return lock.NoFence, err
			}
			return fence, unlessGone(r.delete(ctx, g, n))
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

// readsAtOnce is how many folders are read at the same time.
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

// Keys lists the keys whose folder under Root has a contender. It takes one round trip for each folder; empty ones
// exist for a minute.
func (q *Sequential) Keys(ctx context.Context) ([]string, error) {
	return q.session.keys(ctx, "", func(ctx context.Context, g *generation, dir string) (bool, error) {
		names, err := g.children(ctx, dir)
		return len(parseQueue(names)) > 0, err
	})
}

// Keys lists the keys whose folder under Root has the node of a holder; see Sequential.Keys.
func (e *Ephemeral) Keys(ctx context.Context) ([]string, error) {
	return e.session.keys(ctx, ephemeralSuffix, func(ctx context.Context, g *generation, dir string) (bool, error) {
		_, _, err := g.get(ctx, dir+"/"+ephemeralName)
		return err == nil, err
	})
}

func (s *Session) keys(
	ctx context.Context, suffix string, held func(context.Context, *generation, string) (bool, error),
) ([]string, error) {
	return inquire(ctx, s, "list locks", func(ctx context.Context, g *generation) ([]string, error) {
		folders, err := g.children(ctx, max(s.config.Root, "/"))
		if err != nil {
			return nil, unlessGone(err)
		}
		keys := make([]string, len(folders))
		err = atOnce(len(folders), func(i int) error {
			name, ours := strings.CutSuffix(folders[i], suffix)
			key, err := url.PathUnescape(name)
			if !ours || err != nil {
				return nil // not made by escape, or not for this lock
			}
			found, err := held(ctx, g, s.config.Root+"/"+folders[i])
			if found && err == nil {
				keys[i] = key
			}
			return unlessGone(err)
		})
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == "" })
		slices.Sort(keys)
		return keys, err
	})
}

// above returns a fence for a node without one. It is larger than the fences of earlier nodes, and not larger than the
// fence of any later node.
func (r *fenceRecord) above(czxid int64) lock.Fence {
	epoch, _ := split(czxid)
	for _, t := range r.Terms {
		if t.Epoch > epoch {
			return lock.Fence(t.Base)
		}
	}
	return lock.Fence(r.Mark)
}

// fenceAfter returns a fence that is larger than the fences of a node and of those before it, and not larger than any
// later fence.
func (g *generation) fenceAfter(ctx context.Context, czxid, clock int64) (lock.Fence, error) {
	fence, err := g.fence(ctx, czxid, clock)
	if !errors.Is(err, errAgain) {
		return fence + fenceRange, err
	}
	r, err := g.fenceRecord(ctx)
	if err != nil {
		return lock.NoFence, err
	}
	return r.above(czxid), nil
}

// fillFences sets the fence of each contender of some keys whose node has one. It changes nothing on the server.
func (g *generation) fillFences(ctx context.Context, keys ...[]Contender) error {
	fill := func(r *fenceRecord) (complete bool) {
		if r == nil {
			return false
		}
		complete = true
		for _, all := range keys {
			for i := range all {
				if fence, ok := r.fence(all[i].czxid); ok {
					all[i].Fence = fence
				} else {
					complete = false
				}
			}
		}
		return complete
	}
	known := g.record.Load()
	if fill(known) {
		return nil
	}
	r, err := g.readRecord(ctx)
	if err != nil {
		return unlessGone(err)
	}
	g.record.CompareAndSwap(known, r)
	fill(r)
	return nil
}

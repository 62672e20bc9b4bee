package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// A Contender holds a key or waits for it.
type Contender struct {
	Who   string     // lock.Owner of its Acquire; Curator writes an address
	Node  string     // path of its node; deleting that puts it out of the queue
	Since time.Time  // when it came, by the server's clock
	Fence lock.Fence // that it has, or will have; none if it has just come, or is no lock of this package

	czxid int64
}

// Contenders lists the holder of key and those who wait, in the order in which they will have it. It costs one round trip for the
// list and one, in parallel, for each node, and perhaps one for their fences; those that leave meanwhile are left out. The error matches lock.ErrDown if the server did
// not answer.
func (q *Sequential) Contenders(ctx context.Context, key string) ([]Contender, error) {
	dir, err := q.session.folder(key)
	if err != nil {
		return nil, err
	}
	return inquire(ctx, q.session, fmt.Sprintf("list contenders of lock %q", key), func(ctx context.Context, g *generation) ([]Contender, error) {
		all, err := g.contenders(ctx, dir)
		if err == nil {
			err = g.fences(ctx, all)
		}
		return all, err
	})
}

// contenders are the contenders but for their fences.
func (g *generation) contenders(ctx context.Context, dir string) ([]Contender, error) {
	names, err := g.children(ctx, dir)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	queue := contenders(names)
	all, errs := make([]Contender, len(queue)), make([]error, len(queue))
	var reads sync.WaitGroup
	for i, c := range queue {
		reads.Go(func() { all[i], errs[i] = g.contender(ctx, dir+"/"+c.name) })
	}
	reads.Wait()
	return slices.DeleteFunc(all, func(c Contender) bool { return c.Node == "" }), errors.Join(errs...)
}

// contender is who made a node, or nobody if it has gone.
func (g *generation) contender(ctx context.Context, path string) (Contender, error) {
	data, stat, err := g.get(ctx, path)
	if err != nil {
		return Contender{}, unlessGone(err)
	}
	return Contender{Who: string(data), Node: path, Since: time.UnixMilli(stat.Ctime), czxid: stat.Czxid}, nil
}

// contenders are the children that take part, in the order in which they came.
func contenders(names []string) []contender {
	var queue []contender
	for _, name := range names {
		if c, ok := parse(name); ok {
			queue = append(queue, c)
		}
	}
	slices.SortFunc(queue, contender.compare)
	return queue
}

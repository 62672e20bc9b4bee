package zklock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// tries is how often a step is tried. A step is repeated if a connection broke or a folder was removed. Each try first
// waits for a connection.
const tries = 5

// start calls f in a goroutine, for which Close waits. It returns false if the generation is over.
func (g *generation) start(f func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over.Err() == nil {
		g.requests.Go(f)
		return true
	}
	return false
}

// ask makes one request. The library has no contexts: there a request returns when the server has answered or the
// connection has broken. ask returns when ctx ends or, if the server answers, up to grace later. Then the request may
// still be executed: the library sends queued requests when it has connected again.
//
// path and right are for the error; see replyError.
func ask[T any](
	ctx context.Context, g *generation, grace time.Duration, path, right string, request func() (T, error),
) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, context.Cause(ctx)
	}
	answers := make(chan answer, 1)
	begun := g.start(func() {
		value, err := request()
		answers <- answer{value, replied(path, right, err)}
	})
	if !begun {
		return none, context.Cause(g.over)
	}
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
	}
	if grace > 0 && g.now().usable() {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-time.After(grace):
		}
	}
	return none, context.Cause(ctx)
}

// retry asks a request that may be executed twice, and repeats it after a broken connection.
func retry[T any](
	ctx context.Context, g *generation, path, right string, request func() (T, error),
) (value T, err error) {
	for range tries {
		value, err = ask(ctx, g, 0, path, right, request)
		if answered(err) {
			return value, err
		}
		if err := g.waitForLink(ctx); err != nil {
			return value, err
		}
	}
	return value, fmt.Errorf("%w: %w", errNoConnection, err)
}

func (g *generation) waitForLink(ctx context.Context) error {
	for {
		changed := g.s.changed.next()
		if ctx.Err() == nil && g.now().link != nil {
			return nil
		}
		select {
		case <-changed:
		case <-g.over.Done():
			return context.Cause(g.over)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// transact asks a transaction, once. It needs a right for each of its operations.
func (g *generation) transact(
	ctx context.Context, grace time.Duration, path string, rights []string, operations ...any,
) ([]zk.MultiResponse, error) {
	done, err := ask(ctx, g, grace, path, rights[0], func() ([]zk.MultiResponse, error) {
		return g.conn.Multi(operations...)
	})
	refused := slices.IndexFunc(done, func(r zk.MultiResponse) bool { return r.Error != nil })
	var reply *replyError
	if errors.As(err, &reply) && refused >= 0 {
		reply.right = rights[refused]
	}
	return done, err
}

func (g *generation) children(ctx context.Context, path string) ([]string, error) {
	return retry(ctx, g, path, "read", func() ([]string, error) {
		names, _, err := g.conn.Children(path)
		return names, err
	})
}

// A content is what a node has.
type content struct {
	data []byte
	stat *zk.Stat
}

func (g *generation) get(ctx context.Context, path string) (content, error) {
	return retry(ctx, g, path, "read", func() (content, error) {
		data, stat, err := g.conn.Get(path)
		return content{data, stat}, err
	})
}

// read reads a contender's node, and takes its data for the name of its owner.
func (g *generation) read(ctx context.Context, dir, name string) (node, error) {
	c, err := g.get(ctx, dir+"/"+name)
	if err != nil {
		return node{}, err
	}
	return node{
		dir: dir, name: name, owner: string(c.data), czxid: c.stat.Czxid, clock: c.stat.Ctime,
		session: c.stat.EphemeralOwner,
	}, nil
}

// makeFolder makes path and its missing parents. They are containers, which the server removes some time (by default up
// to a minute) after the deletion of their last child.
func (g *generation) makeFolder(ctx context.Context, path string) error {
	if path == "" {
		return nil // the root always exists
	}
	for range tries {
		_, err := retry(ctx, g, path, "create", func() (string, error) {
			return g.conn.CreateContainer(path, nil, zk.FlagContainer, g.s.acl())
		})
		if errors.Is(err, zk.ErrNodeExists) {
			return nil
		}
		if !errors.Is(err, zk.ErrNoNode) {
			return err
		}
		if err := g.makeFolder(ctx, path[:strings.LastIndexByte(path, '/')]); err != nil {
			return err
		}
	}
	return zk.ErrNoNode
}

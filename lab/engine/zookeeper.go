package engine

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// A root is the node of a test on ZooKeeper.
type root struct {
	hosts []string
	path  string
}

// openRoot returns an error if ZooKeeper cannot be reached. The instances make the node.
func openRoot(ctx context.Context, hosts []string, run string) (*root, error) {
	r := &root{hosts: hosts, path: "/" + run}
	return r, r.with(ctx, func(c *zk.Conn) error {
		_, _, err := c.Exists(r.path)
		return err
	})
}

// with calls do with a session.
func (r *root) with(ctx context.Context, do func(*zk.Conn) error) error {
	conn, events, err := zk.Connect(r.hosts, 10*time.Second, zk.WithLogger(silent{}))
	if err != nil {
		return failure("zookeeper.not-reached", "hosts", strings.Join(r.hosts, ","), "why", err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, dialBound)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return failure("zookeeper.not-reached", "hosts", strings.Join(r.hosts, ","), "why", context.Cause(ctx))
		case e := <-events:
			if e.State == zk.StateHasSession {
				return do(conn)
			}
		}
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// remove deletes the node and all below it. It may be called more than once.
func (r *root) remove(ctx context.Context) error {
	err := r.with(ctx, func(c *zk.Conn) error { return removeAll(c, r.path) })
	if err != nil {
		return failure("zookeeper.left", "path", r.path, "why", err)
	}
	return nil
}

func removeAll(c *zk.Conn, path string) error {
	children, _, err := c.Children(path)
	for _, child := range children {
		if err := removeAll(c, path+"/"+child); err != nil {
			return err
		}
	}
	if err == nil {
		err = c.Delete(path, -1)
	}
	if errors.Is(err, zk.ErrNoNode) { // never made, or the end of a session was quicker
		return nil
	}
	return err
}

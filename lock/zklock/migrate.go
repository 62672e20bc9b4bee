package zklock

import (
	"context"
	"errors"
	"slices"

	"github.com/go-zookeeper/zk"
)

// Migrate gives Root and all nodes below it the ACL that new nodes get, in either direction. It can run beside
// instances that hold locks and wait, as long as they have the identities of the new ACL: no node is deleted or
// written, so fences continue. Nodes above Root keep their ACL, because others may use them.
//
// It can be repeated, and continues after an error where it is needed. It calls progress, if not nil, after each node,
// and returns how many nodes it has seen and changed. Round trips: 2 for each node, and 1 for each change.
func (s *Session) Migrate(ctx context.Context, progress func(seen, changed int)) (seen, changed int, err error) {
	if s.config.Root == "" {
		return 0, 0, errors.New("set the ACL of locks: with the root / their nodes are among others'")
	}
	type count struct{ seen, changed int }
	walk := func(ctx context.Context, g *generation) (c count, err error) {
		var want []zk.ACL
		todo := []string{s.config.Root} // a node is before its children, so that nobody adds open ones meanwhile
		for len(todo) > 0 && err == nil {
			path := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			var change bool
			var names []string
			if want, change, err = g.setACL(ctx, path, want); err == nil {
				names, err = g.children(ctx, path)
			}
			if errors.Is(err, zk.ErrNoNode) { // it was deleted meanwhile
				err = nil
				continue
			}
			for _, name := range names {
				todo = append(todo, path+"/"+name)
			}
			c.seen++
			if change {
				c.changed++
			}
			if progress != nil {
				progress(c.seen, c.changed)
			}
		}
		return c, err
	}
	total, err := inquire(ctx, s, "set the ACL of locks", walk)
	return total.seen, total.changed, err
}

// setACL gives a node the ACL of new nodes, unless it has it. want is that ACL as the server stores it, with our
// identities instead of the scheme "auth"; nil if it is not known yet.
func (g *generation) setACL(ctx context.Context, path string, want []zk.ACL) (
	stored []zk.ACL, changed bool, err error,
) {
	read := func() ([]zk.ACL, error) {
		acl, _, err := g.conn.GetACL(path)
		return acl, err
	}
	before, err := retry(ctx, g, path, "read", read)
	if err != nil || want != nil && slices.Equal(before, want) {
		return want, false, err
	}
	set := func() (*zk.Stat, error) { return g.conn.SetACL(path, g.s.acl(), -1) }
	if _, err = retry(ctx, g, path, "admin", set); err != nil || want != nil {
		return want, true, err
	}
	want, err = retry(ctx, g, path, "read", read)
	return want, !slices.Equal(before, want), err
}

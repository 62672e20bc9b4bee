package zklock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// checkIdentity returns an error for credentials that no server accepts, and for nodes that nobody could use.
func (c Config) checkIdentity() error {
	for _, credentials := range c.Credentials {
		if user, _, found := strings.Cut(credentials, ":"); !found || user == "" {
			return errors.New("credentials must be user:password") // not quoted: they are secret
		}
	}
	if c.CreatorOnly && len(c.Credentials) == 0 && c.Dialer == nil {
		return errors.New("nodes for their creator alone need credentials, or a dialer with a client certificate")
	}
	return nil
}

// acl is the ACL of our nodes. With the scheme "auth" the server puts in every identity of the connection. If the
// connection has none, it refuses the request (zk.ErrInvalidACL), so no node is open by mistake.
func (s *Session) acl() []zk.ACL {
	if s.config.CreatorOnly {
		return zk.AuthACL(zk.PermAll)
	}
	return zk.WorldACL(zk.PermAll) // as in Curator, so that operators can unlock
}

// logDenial logs a request that the server does not allow, with its path. With wrong credentials every request is one.
func (s *Session) logDenial(err error) {
	if s.denials.due() {
		const why = "zookeeper does not allow a request: the node belongs to other zookeeper.credentials or another " +
			"client certificate"
		s.log.Error(why, "error", err, "credentials", len(s.config.Credentials) > 0, "creator", s.config.CreatorOnly)
	}
}

// An occasional is something that is done at most once a minute. Its value is when it was done last, in nanoseconds
// since 1970.
type occasional struct{ last atomic.Int64 }

func (o *occasional) due() bool {
	now, last := time.Now().UnixNano(), o.last.Load()
	return now-last >= int64(time.Minute) && o.last.CompareAndSwap(last, now)
}

func (o *occasional) reset() { o.last.Store(0) }

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

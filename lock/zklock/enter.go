package zklock

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"

	"example.com/stock/lock"
)

// A node is our place in the queue of a folder, or the lock itself.
type node struct {
	dir, name string
	guid      string // in its name or its data, so that it can be found if the answer to its creation was lost
	czxid     int64  // the transaction that created it
	clock     int64  // of the server, at that transaction, in milliseconds
	fence     lock.Fence
	session   int64 // whose it is; 0: nobody's, it stays
	alone     bool  // it was the only child then: nobody is ahead

	version int32       // of the folder, as the transaction left it that created the node
	told    *generation // who was told version
}

// A form is how the node of a lock is made, found and deleted. What it is given to find may be of an earlier generation.
type form interface {
	// create makes one request, once. The error is errScale if the record of fences is not s any more.
	create(g *generation, s *scale, dir, guid, who string) (node, error)
	// find looks for what create made with guid. The error of a node that is not there is zk.ErrNoNode. See read.
	find(ctx context.Context, g *generation, dir, guid string) (node, error)
	// delete deletes n, and nothing else, for as long as ctx lives. That it is gone already is no error.
	delete(ctx context.Context, g *generation, n node) error
}

func (n node) path() string { return n.dir + "/" + n.name }

// everyone may do everything, as in Curator: whoever reaches the server may lock and, in need, unlock.
func everyone() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// enter creates our node, which has its fence then, and the folder if need be. On failure there is no node, or it is debris that is
// being swept. See read.
func (g *generation) enter(ctx context.Context, f form, t *turn) (node, error) {
	n, err := g.create(ctx, f, t)
	if err != nil {
		return n, err
	}
	if n.fence, err = g.number(ctx, n.czxid, n.clock); err != nil {
		g.abandon(f, n)
		return node{}, err
	}
	return n, nil
}

func (g *generation) create(ctx context.Context, f form, t *turn) (node, error) {
	var err error
	for range tries {
		var s *scale
		if s, err = g.scale(ctx); err != nil {
			return node{}, err
		}
		guid := uuid.NewString()
		var n node
		n, err = f.create(g, s, t.dir, guid, t.options.Owner)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, errScale):
			g.forgetScale(s)
			continue
		case errors.Is(err, zk.ErrNoNode):
			// The folder was never made, or the server has just removed it because it was empty.
			if err = g.makeFolder(ctx, t.dir); err != nil {
				return node{}, err
			}
			err = zk.ErrNoNode
			continue
		case answered(err):
			return node{}, err
		case ctx.Err() != nil:
			g.s.debris.add(g.remnant(f, t.dir, guid))
			return node{}, err
		}
		// The connection broke before the answer came. Is there a node? A new one beside it would wait for it for ever.
		n, lookErr := g.recover(ctx, f, t.dir, guid)
		if lookErr == nil || !errors.Is(lookErr, zk.ErrNoNode) {
			return n, lookErr
		}
	}
	return node{}, err
}

// abandon deletes the node of one who gave up: at once if the server is there, or in the background.
func (g *generation) abandon(f form, own node) {
	if !g.hopeful() {
		g.s.debris.add(remnant{form: f, node: own})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lock.ReleaseTimeout)
	defer cancel()
	_ = g.s.remove(ctx, f, own) // sweep knows
}

// recover looks for the node that a broken create may have left. It is ours only if it is of this session; one of an earlier session
// goes away by itself, perhaps while we believed to hold it (CURATOR-604). Here that cannot be: a generation is one session. It is
// checked all the same. What is not found may still be on its way, and is searched for in the background.
func (g *generation) recover(ctx context.Context, f form, dir, guid string) (node, error) {
	err := g.linkedAgain(ctx)
	var n node
	if err == nil {
		n, err = f.find(ctx, g, dir, guid)
	}
	g.s.mu.Lock()
	own := g.id
	g.s.mu.Unlock()
	if err == nil && n.session != own {
		err = zk.ErrNoNode
	}
	if err != nil {
		g.s.debris.add(g.remnant(f, dir, guid))
		return node{}, err
	}
	return n, nil
}

func (g *generation) remnant(f form, dir, guid string) remnant {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return remnant{form: f, node: node{dir: dir, guid: guid}, until: time.Now().Add(g.timeout)}
}

// makeFolder makes path and what is missing above it. They are containers, which the server removes a while after their last
// child (a minute, by default); a server before 3.5 has none, so there they stay.
func (g *generation) makeFolder(ctx context.Context, path string) error {
	for range tries {
		_, err := read(ctx, g, func() (string, error) {
			made, err := g.conn.CreateContainer(path, nil, zk.FlagContainer, everyone())
			if err == nil || errors.Is(err, zk.ErrNoNode) || errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrNoAuth) {
				return made, err
			}
			return g.conn.Create(path, nil, zk.FlagPersistent, everyone())
		})
		if !errors.Is(err, zk.ErrNoNode) {
			if errors.Is(err, zk.ErrNodeExists) {
				return nil
			}
			return err
		}
		parent := path[:strings.LastIndexByte(path, '/')]
		if parent == "" {
			return err
		}
		if err := g.makeFolder(ctx, parent); err != nil {
			return err
		}
	}
	return zk.ErrNoNode
}

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

// A node is our place in the queue of a folder.
type node struct {
	dir, name string
	czxid     int64 // the transaction that created it
	alone     bool  // it was the only child then: nobody is ahead
}

func (n node) path() string { return n.dir + "/" + n.name }

// everyone may do everything, as in Curator: whoever reaches the server may lock and, in need, unlock.
func everyone() []zk.ACL { return zk.WorldACL(zk.PermAll) }

// enter creates our node, and the folder if need be. On failure there is no node, or it is debris that is being swept. See read.
//
// It is one transaction that also writes to the folder, nothing; for the sake of the answer. That holds the folder's state
// right after the create: who is the only child has the lock and need not list, and the folder was modified by the transaction
// that created the node, so we know the fence without asking for it.
func (g *generation) enter(ctx context.Context, dir string, data []byte) (node, error) {
	var err error
	for range tries {
		guid := uuid.NewString()
		var n node
		n, err = g.create(dir, guid, data)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, zk.ErrNoNode):
			// The folder was never made, or the server has just removed it because it was empty.
			if err = g.makeFolder(ctx, dir); err != nil {
				return node{}, err
			}
			err = zk.ErrNoNode
			continue
		case answered(err):
			return node{}, err
		case ctx.Err() != nil:
			g.s.debris.add(g.remnant(dir, guid))
			return node{}, err
		}
		// The connection broke before the answer came. Is there a node? A new one beside it would wait for it for ever.
		n, found, lookErr := g.find(ctx, dir, guid)
		if found {
			return n, nil
		}
		if lookErr != nil {
			return node{}, lookErr
		}
	}
	return node{}, err
}

// create makes one request, once.
func (g *generation) create(dir, guid string, data []byte) (node, error) {
	done, err := g.conn.Multi(
		&zk.CreateRequest{
			Path: dir + "/" + protected + guid + lockName, Data: data, Acl: everyone(), Flags: zk.FlagEphemeralSequential,
		},
		&zk.SetDataRequest{Path: dir, Version: -1},
	)
	if err != nil {
		return node{}, err
	}
	folder := done[1].Stat
	return node{
		dir: dir, name: strings.TrimPrefix(done[0].String, dir+"/"),
		czxid: folder.Mzxid, alone: folder.NumChildren == 1,
	}, nil
}

// abandon deletes the node of one who gave up: at once if the server is there, or in the background.
func (g *generation) abandon(own node) {
	if !g.hopeful() {
		g.s.debris.add(remnant{path: own.path()})
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lock.ReleaseTimeout)
	defer cancel()
	_ = g.s.remove(ctx, own.path()) // sweep knows
}

// find looks for the node that a broken create may have left. It is ours only if it is of this session; one of an earlier session
// goes away by itself, perhaps while we believed to hold it (CURATOR-604). Here that cannot be: a generation is one session. It is
// checked all the same. What is not found may still be on its way, and is searched for in the background.
func (g *generation) find(ctx context.Context, dir, guid string) (n node, found bool, err error) {
	sweep := true
	defer func() {
		if sweep {
			g.s.debris.add(g.remnant(dir, guid))
		}
	}()
	if err := g.linkedAgain(ctx); err != nil {
		return node{}, false, err
	}
	names, err := g.children(ctx, dir)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return node{}, false, err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, protected+guid) {
			continue
		}
		stat, err := read(ctx, g, func() (*zk.Stat, error) {
			exists, stat, err := g.conn.Exists(dir + "/" + name)
			if err == nil && !exists {
				err = zk.ErrNoNode
			}
			return stat, err
		})
		g.s.mu.Lock()
		own := g.id
		g.s.mu.Unlock()
		if err == nil && stat.EphemeralOwner == own {
			sweep = false
			return node{dir: dir, name: name, czxid: stat.Czxid}, true, nil
		}
	}
	return node{}, false, nil
}

func (g *generation) remnant(dir, guid string) remnant {
	g.s.mu.Lock()
	defer g.s.mu.Unlock()
	return remnant{dir: dir, guid: guid, until: time.Now().Add(g.timeout)}
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

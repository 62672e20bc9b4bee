package zklock

import (
	"context"
	"strings"

	"github.com/go-zookeeper/zk"
)

// nodeInQueue is the form of a place in a queue: an ephemeral sequential node with the guid in its name, as Curator's.
type nodeInQueue struct{}

// create is one transaction that also writes to the folder, nothing; for the sake of the answer. That holds the folder's state
// right after the create: who is the only child has the lock and need not list, and the folder was modified by the transaction
// that created the node, so we know the fence without asking for it.
func (nodeInQueue) create(g *generation, s *scale, dir, guid, who string) (node, error) {
	done, err := g.conn.Multi(
		&zk.CreateRequest{
			Path: dir + "/" + protected + guid + lockName, Data: []byte(who), Acl: everyone(), Flags: zk.FlagEphemeralSequential,
		},
		&zk.SetDataRequest{Path: dir, Version: -1},
		s.guard(),
	)
	if err != nil {
		return node{}, guarded(done, 2, err)
	}
	folder := done[1].Stat
	return node{
		dir: dir, name: strings.TrimPrefix(done[0].String, dir+"/"), guid: guid,
		czxid: folder.Mzxid, clock: folder.Mtime, alone: folder.NumChildren == 1,
	}, nil
}

// find lists the folder.
func (nodeInQueue) find(ctx context.Context, g *generation, dir, guid string) (node, error) {
	names, err := g.children(ctx, dir)
	if err != nil {
		return node{}, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, protected+guid) {
			stat, err := read(ctx, g, func() (*zk.Stat, error) {
				exists, stat, err := g.conn.Exists(dir + "/" + name)
				if err == nil && !exists {
					err = zk.ErrNoNode
				}
				return stat, err
			})
			if err != nil {
				return node{}, err
			}
			return node{dir: dir, name: name, guid: guid, czxid: stat.Czxid, clock: stat.Ctime, session: stat.EphemeralOwner}, nil
		}
	}
	return node{}, zk.ErrNoNode
}

// delete can be sure: the name is nobody else's, in any session.
func (nodeInQueue) delete(ctx context.Context, g *generation, n node) error {
	_, err := ask(ctx, g, 0, func() (struct{}, error) { return struct{}{}, g.conn.Delete(n.path(), -1) }, nil)
	return unlessGone(err)
}

package zklock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/google/uuid"
)

// lockNode is the form of a lock that is one node, the same for every holder. What is written in it, "guid owner", says whose it is.
//
// Such a node cannot be deleted by its path alone. Its holder may have been evicted, or expired, and the node be the next one's by the time
// that the request arrives; and its own version does not help, because every node begins at 0. So the transaction that creates it also
// writes to the folder, nothing: the version of the folder counts the holders. The one that deletes it does so only if nobody
// has acquired since.
//
// The version begins again if the server removes the folder, empty for a minute. That can deceive a holder only who was evicted, has not
// learned of it, and finds as many successors in a new folder as he had predecessors in the old one.
type lockNode struct{}

const lockNodeName = "lock"

// create fails with zk.ErrNodeExists if the key is held.
func (lockNode) create(g *generation, s *scale, dir, guid, who string) (node, error) {
	done, err := g.conn.Multi(
		&zk.CreateRequest{
			Path: dir + "/" + lockNodeName, Data: []byte(guid + " " + who), Acl: everyone(), Flags: zk.FlagEphemeral,
		},
		&zk.SetDataRequest{Path: dir, Version: -1},
		s.guard(),
	)
	if err != nil {
		return node{}, guarded(done, 2, err)
	}
	folder := done[1].Stat
	return node{dir: dir, name: lockNodeName, guid: guid, czxid: folder.Mzxid, clock: folder.Mtime, version: folder.Version, told: g}, nil
}

// find reads the folder and then the node: if both have changed in between, the version is too old to delete with.
func (l lockNode) find(ctx context.Context, g *generation, dir, guid string) (node, error) {
	n, err := l.look(ctx, g, dir)
	if err == nil && n.guid != guid {
		err = zk.ErrNoNode
	}
	return n, err
}

// look finds the node of whoever holds the key.
func (l lockNode) look(ctx context.Context, g *generation, dir string) (node, error) {
	version, err := read(ctx, g, func() (int32, error) {
		exists, stat, err := g.conn.Exists(dir)
		if err == nil && !exists {
			err = zk.ErrNoNode
		}
		if err != nil {
			return 0, err
		}
		return stat.Version, nil
	})
	if err != nil {
		return node{}, err
	}
	data, stat, err := g.get(ctx, dir+"/"+lockNodeName)
	if err != nil {
		return node{}, err
	}
	guid, _ := signature(data)
	return node{
		dir: dir, name: lockNodeName, guid: guid, czxid: stat.Czxid, clock: stat.Ctime, session: stat.EphemeralOwner, version: version, told: g,
	}, nil
}

// holder is who has the key, but for its fence, for one read.
func (lockNode) holder(ctx context.Context, g *generation, dir string) (Contender, error) {
	path := dir + "/" + lockNodeName
	data, stat, err := g.get(ctx, path)
	if err == nil && stat.EphemeralOwner == 0 {
		err = fmt.Errorf("%w: %s", errNoLock, path)
	}
	if err != nil {
		return Contender{}, err
	}
	_, who := signature(data)
	return Contender{Who: who, Node: path, Since: time.UnixMilli(stat.Ctime), czxid: stat.Czxid}, nil
}

// delete takes one round trip. Two more, for find, if the version was told to an earlier generation, or if it is not the folder's any more.
func (l lockNode) delete(ctx context.Context, g *generation, n node) error {
	for range tries {
		if n.told != g {
			found, err := ask(ctx, g, 0, func() (node, error) { return l.find(ctx, g, n.dir, n.guid) }, nil)
			if err != nil {
				return unlessGone(err)
			}
			n = found
		}
		_, err := ask(ctx, g, 0, func() ([]zk.MultiResponse, error) {
			return g.conn.Multi(&zk.CheckVersionRequest{Path: n.dir, Version: n.version}, &zk.DeleteRequest{Path: n.path(), Version: -1})
		}, nil)
		if !errors.Is(err, zk.ErrBadVersion) {
			return unlessGone(err)
		}
		n.told = nil // another has the key, or an operator wrote to the folder
	}
	return zk.ErrBadVersion
}

// unlessGone is err, or nil if there is no node any more.
func unlessGone(err error) error {
	if errors.Is(err, zk.ErrNoNode) {
		return nil
	}
	return err
}

// signature is what create wrote. What another program wrote is no guid of ours.
func signature(data []byte) (guid, who string) {
	guid, who, signed := strings.Cut(string(data), " ")
	if !signed || uuid.Validate(guid) != nil {
		return "", string(data)
	}
	return guid, who
}

func (g *generation) get(ctx context.Context, path string) (data []byte, stat *zk.Stat, err error) {
	data, err = read(ctx, g, func() ([]byte, error) {
		var data []byte
		data, stat, err = g.conn.Get(path)
		return data, err
	})
	return data, stat, err
}

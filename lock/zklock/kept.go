package zklock

import (
	"context"
	"strings"
	"sync"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// This file is how a process that keeps a lease (lock.HandOver, "Kept leases") hears that another one wants the key:
//
//  1. The name of our node says that its lease may be kept.
//  2. If no contender was there when the node was created, list the folder once, and set a watch on it, while the
//     caller already works. If any node came or went since our create, somebody wants the key, or may have wanted it.
//  3. The watch fires at the first contender, of Curator too. Only one process has a watch, and it fires once.
//  4. A try (Options.TryOnce) makes no node. If it finds a node of step 1 alone, it fires the watch, see tell.
//
// After a broken connection or a second of silence nothing is heard, and leases that nobody uses are given back. A
// lease that had to wait is not kept, because others were there a moment ago. If a lease ends before its watch is set,
// the watch stays until the key is used again or the server removes its folder.

// keptMark, between the guid and lockName, is step 1.
const keptMark = "-kept"

// keepers has the leases that hear of others, by the path of their folder.
type keepers struct {
	mu       sync.Mutex
	byFolder map[string]*keeper
}

type keeper struct {
	wanted context.Context // see lock.Lease.Revocable
	revoke context.CancelFunc
}

func (k *keepers) add(dir string, added *keeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byFolder == nil {
		k.byFolder = make(map[string]*keeper)
	}
	k.byFolder[dir] = added
}

func (k *keepers) drop(dir string, dropped *keeper) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byFolder[dir] == dropped {
		delete(k.byFolder, dir)
	}
}

// changed is called when a folder with a watch has changed.
func (k *keepers) changed(dir string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if one := k.byFolder[dir]; one != nil {
		one.revoke()
	}
}

// revocable makes a lease one that may be kept. An eviction changes the folder, too, so watchHolder is needed only once
// the lease is wanted: a kept lease needs no watch of its own node, and no goroutine.
func (g *generation) revocable(own node, lease *lock.Lease, lost func(error)) {
	g.s.mu.Lock()
	hearing := g.hearing
	g.s.mu.Unlock()
	k := new(keeper)
	k.wanted, k.revoke = context.WithCancel(hearing)
	g.keepers.add(own.dir, k) // before the watch is set
	ignore := context.AfterFunc(k.wanted, func() { g.watchHolder(own, lease, lost) })
	lease.Revocable(k.wanted, fenceRange, func() {
		ignore()
		g.keepers.drop(own.dir, k)
		k.revoke()
	}, func() bool { return g.loss() == nil })
	if !g.beginRequest() {
		k.revoke()
		return
	}
	go func() {
		defer g.requests.Done()
		if lease.Err() != nil {
			return // the watch would stay after the lease
		}
		_, folder, _, err := g.conn.ChildrenW(own.dir) // the event arrives at generation.event
		if err != nil || !own.untouched(folder) {
			k.revoke()
		}
	}()
}

// untouched reports whether no node has come to the folder or gone since n was created.
func (n node) untouched(folder *zk.Stat) bool { return folder.Pzxid == n.czxid }

// untold reports whether a try that has found this queue, and then its head, must tell the keeper.
func untold(queue []queueNode, head Contender) bool {
	return len(queue) == 1 && strings.Contains(head.Node, keptMark+lockName) && head.version == 0
}

// tell makes the keeper of a node hear that somebody has tried, in one transaction that fires its watch and leaves
// nothing behind. It raises the version of the keeper's node, so that later tries read that the keeper has been told.
// A keeper that it does not reach, because the watch is not set yet, finds its folder changed when it sets it.
func (g *generation) tell(dir string, keeper Contender) {
	const wanted = "/wanted" // nobody ever sees a node of this name
	_, _ = g.conn.Multi(
		&zk.SetDataRequest{Path: keeper.Node, Data: []byte(keeper.Who), Version: 0},
		&zk.CreateRequest{Path: dir + wanted, Acl: g.s.acl(), Flags: zk.FlagEphemeral},
		&zk.DeleteRequest{Path: dir + wanted, Version: -1},
	)
}

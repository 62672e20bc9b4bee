package zklock

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

// Sequential is a fair lock: a queue of ephemeral sequential nodes in which every waiter watches the node before its
// own.
//
// The algorithm is ZooKeeper's recipe for locks
// (https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks) as Curator's InterProcessMutex does it
// (LockInternals), under the same names, so that both exclude each other on the same path:
//
//  1. Create an ephemeral sequential node with a guid in its name, in a folder per key.
//  2. If no contender has a lower sequence, the lock is held.
//  3. Otherwise watch the one just below. One release wakes one waiter, not all of them.
//  4. When it has gone, go back to 2.
//  5. To release, delete the node. It also goes with the session, if the holder crashes.
//
// Round trips, uncontended: 1 to acquire (one transaction) and 1 to release, where Curator and the client library's
// Lock take 3 in all. Contended: 3 to queue up (create, list, watch), 1 to release. From a release to the next
// holder: the deletion and its event, then one listing, which is left out where the node that went was the first of
// all. A first use of a key makes its folder, for 2 more; the first in a session reads the record of fences, for 2.
//
// A try (Options.TryOnce) that fails costs 2 reads and writes nothing; one that succeeds costs one read more.
//
// Promised: one holder per key among all processes while no lease is lost; the order of arrival; fences that grow; a
// loss that is signalled at two thirds of the session timeout, before the server lets the next one in (see
// generation.monitor); that a caller that gives up, is cancelled, or fails leaves no node, or one that is being
// deleted. A crashed holder's key is free within a session timeout and a tick.
//
// Not promised: that a process that was paused, or that ignores its lease, does not write when the lease is lost. That
// is what the fence is for. It is made of the czxid of the node, which grows in an ensemble, and of a number that is
// kept in ZooKeeper and was once its clock, so that fences grow also when the ensemble was lost and is built anew; see
// fenceRecord. It is not the sequence, which starts again with every new folder.
type Sequential struct {
	session *Session
}

// NewSequential makes a Sequential of a Session, which may serve other locks too.
func NewSequential(s *Session) *Sequential { return &Sequential{s} }

// FenceRange returns the distance between fences; see lock.FenceRanger.
func (q *Sequential) FenceRange() uint64 { return fenceRange }

// Acquire waits for key until ctx ends; see lock.Locker. Options.Owner is written into the node for others to read.
// While the session is suspended a waiter keeps its place for 1.5 s. After that, and at once if there is no connection
// to begin with, the error matches lock.ErrDown. Keys are any strings of 1 to 1024 bytes.
func (q *Sequential) Acquire(ctx context.Context, key string, o lock.Options) (*lock.Lease, error) {
	dir, err := q.session.folder(key)
	if err != nil {
		return nil, err
	}
	return q.session.acquire(ctx, sequential{}, key, dir, o)
}

// sequential is the recipe of Sequential. Its numbers are those of the algorithm there.
type sequential struct{}

// take queues up and waits until our node is the first.
func (r sequential) take(ctx context.Context, a *attempt) (node, error) {
	if a.options.TryOnce {
		if err := r.peek(ctx, a); err != nil {
			return node{}, err
		}
	}
	own, err := a.create(ctx) // 1
	if err != nil || own.alone {
		return own, err
	}
	if err = r.wait(ctx, a, own); err != nil && !errors.Is(err, errAgain) {
		a.abandon(own)
	}
	return own, err
}

// wait waits until own is at the head of the queue, or ctx ends.
func (r sequential) wait(ctx context.Context, a *attempt, own node) error {
	for {
		reconnected := a.g.reconnection()
		names, err := a.g.children(ctx, a.dir) // 2
		if errors.Is(err, zk.ErrNoNode) {
			return errAgain
		}
		if err != nil {
			return err
		}
		p := locate(names, own.name)
		switch {
		case !p.found:
			return errAgain
		case p.ahead == 0:
			return nil
		case a.options.TryOnce:
			return r.heldBy(ctx, a, p.head)
		}
		a.held, a.holder = true, ""
		before, err := a.g.watch(ctx, a.dir+"/"+p.before) // 3
		if errors.Is(err, zk.ErrNoNode) {
			continue
		}
		if err != nil {
			return err
		}
		if p.ahead == 1 {
			a.holder = string(before.data)
		}
		deleted, err := a.g.await(ctx, before, reconnected, a.options.Woken) // 4
		if err != nil {
			return err
		}
		if deleted && p.leads() {
			return nil
		}
	}
}

// peek is for a try: it returns an error if the key is held, for the price of reading. To create a node and delete it
// again would be two transactions of the whole ensemble for each "no".
func (r sequential) peek(ctx context.Context, a *attempt) error {
	names, err := a.g.children(ctx, a.dir)
	if err != nil {
		return unlessGone(err)
	}
	queue := parseQueue(names)
	if len(queue) == 0 {
		return nil
	}
	return r.heldBy(ctx, a, queue[0].name)
}

// heldBy returns the error of a try that met a holder. A holder that goes away meanwhile did hold the key when we
// tried.
func (sequential) heldBy(ctx context.Context, a *attempt, head string) error {
	holder, _ := a.g.contender(ctx, a.dir+"/"+head)
	return &lock.HeldError{Key: a.key, Holder: holder.Who}
}

// create makes the node in one transaction that also writes to the folder, nothing, for the sake of the answer. The
// answer holds the folder's state right after the create. So an only child knows that it has the lock and need not
// list. And the folder was modified by the transaction that created the node, so we know the fence without asking for
// it.
func (sequential) create(g *generation, r *fenceRecord, dir, guid, owner string) (node, error) {
	done, err := g.conn.Multi(
		&zk.CreateRequest{
			Path: dir + "/" + protected + guid + lockName, Data: []byte(owner), Acl: everyone(),
			Flags: zk.FlagEphemeralSequential,
		},
		&zk.SetDataRequest{Path: dir, Version: -1},
		r.unchanged(),
	)
	if err != nil {
		return node{}, changedOr(done, 2, err)
	}
	folder := done[1].Stat
	return node{
		dir: dir, name: strings.TrimPrefix(done[0].String, dir+"/"), guid: guid,
		czxid: folder.Mzxid, clock: folder.Mtime, alone: folder.NumChildren == 1,
	}, nil
}

// find lists the folder.
func (sequential) find(ctx context.Context, g *generation, dir, guid string) (node, error) {
	names, err := g.children(ctx, dir)
	if err != nil {
		return node{}, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, protected+guid) {
			stat, err := g.stat(ctx, dir+"/"+name)
			if err != nil {
				return node{}, err
			}
			return node{
				dir: dir, name: name, guid: guid,
				czxid: stat.Czxid, clock: stat.Ctime, session: stat.EphemeralOwner,
			}, nil
		}
	}
	return node{}, zk.ErrNoNode
}

// delete is step 5. It needs no condition: no other node has this name, in any session.
func (sequential) delete(ctx context.Context, g *generation, n node) error {
	_, err := ask(ctx, g, 0, func() (struct{}, error) { return struct{}{}, g.conn.Delete(n.path(), -1) }, nil)
	return unlessGone(err)
}

// Names are Curator's, so that its InterProcessMutex on the same path stands in the same queue:
// _c_<guid>-lock-<sequence>.
const (
	protected = "_c_"
	lockName  = "-lock-"
)

// A queueNode is a node that takes part. The server appended the sequence, which is %010d of the number of children
// that the folder ever had.
type queueNode struct {
	name     string
	sequence int32
}

// parseName reads a child's name. Other names are not ours, and are left alone.
func parseName(name string) (queueNode, bool) {
	at := strings.LastIndex(name, lockName)
	if at < 0 {
		return queueNode{}, false
	}
	digits := name[at+len(lockName):]
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || digits[0] == '+' || (digits[0] == '-') != (n < 0) {
		return queueNode{}, false
	}
	if len(digits) != len("-000000001") && (len(digits) != len("-2147483648") || n > -1_000_000_000) {
		return queueNode{}, false
	}
	return queueNode{name, int32(n)}, true
}

// compare orders nodes by arrival: it is less than 0 if n came before m.
//
// The sequence is a signed 32-bit number and goes on at -2147483648 after 2147483647. Ordered by difference, the order
// holds across that, as long as fewer than 2^31 wait at one time. Curator and others order by value, and would let the
// newcomer in beside the holder. A folder that they share must be emptied before (at 1000 acquisitions per second:
// within 24 days); the server then removes it and begins at 0. That restart is also why the sequence is no fence.
func (n queueNode) compare(m queueNode) int {
	if difference := n.sequence - m.sequence; difference != 0 {
		return int(difference)
	}
	return strings.Compare(n.name, m.name) // cannot come from a server
}

// parseQueue returns the children that take part, in the order of arrival.
func parseQueue(names []string) []queueNode {
	var queue []queueNode
	for _, name := range names {
		if n, ok := parseName(name); ok {
			queue = append(queue, n)
		}
	}
	slices.SortFunc(queue, queueNode.compare)
	return queue
}

// A place is where a node stands in the queue.
type place struct {
	found  bool   // it is there at all
	ahead  int    // how many came before
	before string // the last of those: the one to wait for
	head   string // the first of all
}

// leads reports whether a node in this place is the first once the node before it has been deleted: nobody can come in
// ahead of it. If there were more ahead the node before it may have gone because its owner gave up.
func (p place) leads() bool { return p.ahead == 1 }

// locate finds name among the children of its folder.
func locate(children []string, name string) place {
	own, _ := parseName(name)
	p := place{head: name}
	first, last := own, queueNode{}
	for _, child := range children {
		if child == name {
			p.found = true
			continue
		}
		n, ok := parseName(child)
		if !ok || n.compare(own) > 0 {
			continue
		}
		if p.ahead == 0 || n.compare(last) > 0 {
			last, p.before = n, n.name
		}
		if n.compare(first) < 0 {
			first, p.head = n, n.name
		}
		p.ahead++
	}
	return p
}

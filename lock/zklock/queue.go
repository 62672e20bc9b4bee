package zklock

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock"
)

func (sequential) suffix() string { return "" }

// FenceRange returns the distance between fences; see lock.FenceRanger.
func (q *Sequential) FenceRange() uint64 { return fenceRange }

// peek is for TryOnce. It returns an error if the key is held. It only reads: creating a node and deleting it again
// would cost two transactions of the whole ensemble for each failed try.
func (r sequential) peek(ctx context.Context, a *attempt) error {
	names, err := a.g.children(ctx, a.dir)
	if err != nil {
		return unlessGone(err)
	}
	queue := parseQueue(names)
	if len(queue) == 0 {
		return nil
	}
	holder, _ := a.g.contender(ctx, a.dir+"/"+queue[0].name)
	return &lock.HeldError{Key: a.key, Holder: holder.Who}
}

// heldBy returns the error of a try that found the key held by the node head. The error contains no name if the holder
// has released the key in the meantime.
func (sequential) heldBy(ctx context.Context, a *attempt, head string) error {
	holder, _ := a.g.contender(ctx, a.dir+"/"+head)
	return &lock.HeldError{Key: a.key, Holder: holder.Who}
}

// find lists the folder, and reads the node with guid.
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

// Names are Curator's, so that its InterProcessMutex on the same path uses the same queue: _c_<guid>-lock-<sequence>.
const (
	protected = "_c_"
	lockName  = "-lock-"
)

// A queueNode is a node of the queue. The server appends the sequence: the number of children that the folder ever
// had, as %010d.
type queueNode struct {
	name     string
	sequence int32
}

// parseName reads a child's name. It returns false for a child that is not a node of the queue.
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

// compare orders nodes by arrival: the result is less than 0 if n came before m.
//
// The sequence is a signed 32-bit number that continues at -2147483648 after 2147483647. Nodes are compared by the
// difference of their sequences, so they keep their order across the overflow, as long as fewer than 2^31 wait at one
// time. Curator compares the values, so at the overflow it would grant the lock to a new contender while there is a
// holder. A folder that is shared with Curator must be emptied before the overflow (at 1000 acquisitions per second:
// within 24 days). The server then removes the folder, and a new one begins at 0. This is also why the sequence is not
// a fence.
func (n queueNode) compare(m queueNode) int {
	if difference := n.sequence - m.sequence; difference != 0 {
		return int(difference)
	}
	return strings.Compare(n.name, m.name) // a server never gives the same sequence twice
}

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

// A place describes the position of a node in the queue.
type place struct {
	found  bool   // the node is in the queue
	ahead  int    // how many nodes came before it
	before string // the last of those, which the node's owner watches
	head   string // the first of all nodes
}

// leads reports whether a node in this place is the first once the node before it has been deleted. With more nodes
// ahead it may not be the first, because the owner of the deleted node may have given up.
func (p place) leads() bool { return p.ahead == 1 }

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

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

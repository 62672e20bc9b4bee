package zklock

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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
	return queueNode{name, int32(n)}, err == nil && digits == fmt.Sprintf("%010d", n)
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

// parseQueue returns the nodes of the queue among the children of a folder, in the order of their arrival.
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

package scenario

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// A queuer is a client of a queue of ephemeral sequential nodes, as it is often written: the owner of the first node
// has the lock. It creates a plain node, and deletes only nodes whose names it knows.
type queuer struct {
	b    *lab.Testbed
	who  string
	conn *zk.Conn
	dir  string
}

// quiet keeps the client's own log off the terminal.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// newQueuer opens a new session at addr, the address of the server or its proxy.
func newQueuer(b *lab.Testbed, who, addr string) *queuer {
	return newQueuerFor(b, who, addr, 10*time.Second)
}

// newQueuerFor is newQueuer with another session timeout.
func newQueuerFor(b *lab.Testbed, who, addr string, timeout time.Duration) *queuer {
	conn, events, err := zk.Connect([]string{addr}, timeout, zk.WithLogger(quiet{}))
	b.Must(who+": connect", err)
	b.Defer(conn.Close)
	q := &queuer{b, who, conn, "/lab-" + b.SKU}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	b.Go(func(context.Context) {
		for range events { // until Close
		}
	})
	if _, err := q.create(q.dir, nil, 0); err != nil && err != zk.ErrNodeExists {
		b.Must(who+": create the queue", err)
	}
	return q
}

// create makes a node that everybody may change. It returns its path, which has a number if flags ask for one.
func (q *queuer) create(path string, data []byte, flags int32) (string, error) {
	return q.conn.Create(path, data, flags, zk.WorldACL(zk.PermAll))
}

// enter joins the queue.
func (q *queuer) enter() (node string, err error) {
	path, err := q.create(q.dir+"/lock-", []byte(q.who), zk.FlagEphemeral|zk.FlagSequence)
	node = strings.TrimPrefix(path, q.dir+"/")
	q.b.Note(q.who, "created", "node", node, "error", err)
	return node, err
}

// leave deletes a node.
func (q *queuer) leave(node string) {
	q.b.Must(q.who+": delete", q.conn.Delete(q.dir+"/"+node, -1))
	q.b.Statement(q.who, "zookeeper", fmt.Sprintf("delete %s", node))
}

// line returns the nodes of the queue, in order.
func (q *queuer) line() []string {
	nodes, _, err := q.conn.Children(q.dir)
	q.b.Must(q.who+": children", err)
	slices.Sort(nodes)
	return nodes
}

// owner returns the writer of a node, and whether that was the session of q.
func (q *queuer) owner(node string) (who string, mine bool) {
	data, stat, err := q.conn.Get(q.dir + "/" + node)
	q.b.Must(q.who+": get", err)
	return string(data), stat.EphemeralOwner == q.conn.SessionID()
}

// zkProxy opens a new proxy in front of ZooKeeper.
func zkProxy(b *lab.Testbed) *wire.Proxy {
	return b.ProxyTo(b.Server(lab.NeedZooKeeper).Addr, wire.ZooKeeper())
}

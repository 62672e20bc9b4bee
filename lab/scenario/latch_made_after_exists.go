package scenario

import (
	"context"
	"sync"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
)

// latchAfterExists is a lock that was written by hand: process(event) counts down the latch in a field, and a waiter
// makes the latch when exists has found the node.
func latchAfterExists() lab.Scenario {
	return lab.Scenario{
		Name: "latch-made-after-exists", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "the-event-is-first"),
			byHand("naive", lab.Oversells, "one-latch-for-all-threads"),
			byHand("fixed", lab.Safe, "a-latch-for-each-wait"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			h := &handMade{b: b, q: newQueuer(b, "A", b.Server(lab.NeedZooKeeper).Addr), fired: make(chan string)}
			one, other := h.hold("one"), h.hold("other")
			switch b.Case.Variant {
			case "the-event-is-first":
				h.exists(one, nil)
				h.free(one)
				<-h.fired // process(event) finds no latch
				wait := h.newLatch()
				return h.asleep(one, wait)
			case "one-latch-for-all-threads":
				h.exists(one, nil)
				h.newLatch()
				h.exists(other, nil)
				second := h.newLatch() // in the same field
				h.free(one)
				<-h.fired
				<-second
				held, _, err := h.q.conn.Exists(other)
				b.Must("exists", err)
				b.Evidence(lab.Hold, held, "woken-by-the-other-node", "held", held)
				b.Require(held, "the lock that the second thread waits for is still held")
				return bothSell(b, "B", "A-2")
			}
			first, second := make(chan struct{}), make(chan struct{})
			h.exists(one, first)
			h.exists(other, second)
			h.free(one)
			<-h.fired
			<-first
			select {
			case <-second:
				b.Fatalf("the second thread was woken")
			default:
			}
			b.Evidence(lab.Served, nil, "woken-by-its-own-node")
			h.free(other)
			<-h.fired
			return lab.Safe
		},
	}
}

// A handMade is one instance of the lock object, with two threads.
type handMade struct {
	b     *lab.Testbed
	q     *queuer
	mu    sync.Mutex
	latch chan struct{} // the field
	fired chan string   // after process(event)
}

// hold makes a node that another has.
func (h *handMade) hold(name string) string {
	node := h.q.dir + "/" + name
	_, err := h.q.create(node, nil, zk.FlagEphemeral)
	h.b.Must("create", err)
	return node
}

func (h *handMade) free(node string) {
	h.b.Must("delete", h.q.conn.Delete(node, -1))
	h.b.Statement("B", "zookeeper", "delete "+node)
}

// exists looks at the node and watches it. The event counts down own, or the latch of the field if own is nil.
func (h *handMade) exists(node string, own chan struct{}) {
	found, _, event, err := h.q.conn.ExistsW(node)
	h.b.Must("exists", err)
	h.b.Require(found, "the node is there")
	h.b.Statement("A", "zookeeper", "exists "+node)
	h.b.Go(func(ctx context.Context) {
		select {
		case <-event:
		case <-ctx.Done():
			return
		}
		h.mu.Lock()
		latch := h.latch
		if own != nil {
			latch = own
		}
		countDown(latch)
		h.mu.Unlock()
		select {
		case h.fired <- node:
		case <-ctx.Done():
		}
	})
}

// countDown opens a latch, if there is one and it is closed.
func countDown(latch chan struct{}) {
	if latch == nil {
		return
	}
	select {
	case <-latch:
	default:
		close(latch)
	}
}

// newLatch puts a new latch into the field.
func (h *handMade) newLatch() chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.latch = make(chan struct{})
	h.b.Note("A", "makes-its-latch")
	return h.latch
}

// asleep shows that the lock is free and its waiter sleeps. The watch has fired, so no event is left to wake it.
func (h *handMade) asleep(node string, latch chan struct{}) lab.Outcome {
	held, _, err := h.q.conn.Exists(node)
	h.b.Must("exists", err)
	select {
	case <-latch:
		return lab.Safe
	default:
	}
	h.b.Evidence(lab.Served, held, "waits-for-a-free-lock", "held", held)
	h.b.Require(!held, "the lock is free")
	return lab.Blocks
}

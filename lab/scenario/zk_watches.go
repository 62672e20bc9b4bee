package scenario

import (
	"fmt"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// zkWatches shows what a watch promises: https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html ("ZooKeeper
// Watches").
func zkWatches() lab.Scenario {
	return lab.Scenario{
		Name: "zk-watches", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedZooKeeper},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "counts-the-events"),
			byHand("fixed", lab.Safe, "reads-and-watches-again"),
			byHand("fixed", lab.Safe, "the-event-comes-before-the-data"),
			byHand("fixed", lab.Safe, "the-connection-breaks"),
			byHand("fixed", lab.Aborts, "the-session-ends"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			w := newWatched(b)
			switch b.Case.Variant {
			case "counts-the-events":
				return w.countEvents()
			case "reads-and-watches-again":
				return w.readAgain()
			case "the-event-comes-before-the-data":
				return w.eventFirst()
			}
			return w.cutOff(b.Case.Variant == "the-session-ends")
		},
	}
}

// A watched is a node that A watches and B changes.
type watched struct {
	b        *lab.Testbed
	a, other *queuer
	node     string
	wire     *wire.Proxy // between A and the server
}

func newWatched(b *lab.Testbed) *watched {
	p := zkProxy(b)
	w := &watched{b: b, a: newQueuerFor(b, "A", p.Addr(), 2*time.Second), wire: p}
	w.other = newQueuer(b, "B", b.Server(lab.NeedZooKeeper).Addr)
	w.node = w.a.dir + "/node"
	_, err := w.other.create(w.node, []byte("0"), 0)
	b.Must("create", err)
	return w
}

// watch reads the node and watches it.
func (w *watched) watch() (value string, event <-chan zk.Event) {
	data, _, event, err := w.a.conn.GetW(w.node)
	w.b.Must("get and watch", err)
	w.b.Note("A", "reads-and-watches", "value", string(data))
	return string(data), event
}

// set makes B write a value.
func (w *watched) set(value int) {
	_, err := w.other.conn.Set(w.node, fmt.Append(nil, value), -1)
	w.b.Must("set", err)
	w.b.Statement("B", "zookeeper", fmt.Sprintf("set %d", value))
}

// heard reports whether there is an event, and notes it.
func (w *watched) heard(event <-chan zk.Event) bool {
	select {
	case e, ok := <-event:
		if ok {
			w.b.Statement("A", "", e.Type.String())
		}
		return ok
	default:
		return false
	}
}

// countEvents sets one watch, as if it were a subscription. Three changes cause one event.
func (w *watched) countEvents() lab.Outcome {
	_, event := w.watch()
	for i := range 3 {
		w.set(i + 1)
	}
	events := 0
	w.b.Eventually("A hears of a change", func() bool { return w.heard(event) })
	events++
	data, _, err := w.a.conn.Get(w.node) // events before the reply have arrived
	w.b.Must("get", err)
	for w.heard(event) {
		events++
	}
	w.b.Evidence(lab.Served, events, "events-for-changes", "changes", 3, "events", events)
	w.b.Evidence(lab.Served, string(data), "node-has", "value", string(data))
	if events < 3 {
		return lab.Blocks
	}
	return lab.Safe
}

// readAgain reads and sets a new watch after each event. It may miss changes, but ends with the last value.
func (w *watched) readAgain() lab.Outcome {
	value, event := w.watch()
	for i := range 3 {
		w.set(i + 1)
	}
	reads := 0
	for value != "3" {
		w.b.Eventually("A hears of a change", func() bool { return w.heard(event) })
		value, event = w.watch()
		reads++
	}
	w.b.Evidence(lab.Served, reads, "caught-up", "reads", reads, "value", value)
	return lab.Safe
}

// eventFirst shows that a watching client gets the event of a change before it can read the new value.
func (w *watched) eventFirst() lab.Outcome {
	const rounds = 50
	first := 0
	for i := range rounds {
		_, event := w.watch()
		w.set(i + 1)
		for {
			data, _, err := w.a.conn.Get(w.node)
			w.b.Must("get", err)
			if string(data) == fmt.Sprint(i+1) {
				break
			}
		}
		if w.heard(event) {
			first++
		}
	}
	w.b.Evidence(lab.Served, first, "event-was-first", "rounds", rounds, "first", first)
	w.b.Require(first == rounds, "the event is there before the value is read")
	return lab.Safe
}

// cutOff changes the node while A is cut off, for a moment or until its session has ended.
func (w *watched) cutOff(ends bool) lab.Outcome {
	_, event := w.watch()
	mark := w.a.dir + "/mark"
	_, err := w.a.create(mark, nil, zk.FlagEphemeral)
	w.b.Must("create", err)
	from := time.Now()
	w.wire.Sever()
	w.set(1)
	if ends {
		w.b.Eventually("the session of A has ended", func() bool {
			exists, _, err := w.other.conn.Exists(mark)
			return err == nil && !exists
		})
	}
	w.wire.Mend()
	var e zk.Event
	select {
	case e = <-event:
	case <-time.After(lab.Patience):
		w.b.Fatalf("A is told nothing within %v", lab.Patience)
	}
	w.b.Interval("wire", lab.Fault, "A", from, "silence", "app", "A")
	w.b.Evidence(lab.Served, e.Type.String(), "was-told-of", "event", e.Type.String(), "error", e.Err)
	if e.Type == zk.EventNodeDataChanged {
		return lab.Safe
	}
	return lab.Aborts
}

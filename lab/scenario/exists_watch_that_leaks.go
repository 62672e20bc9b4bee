package scenario

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"example.com/stock/lab"
	"example.com/stock/loadtest"
	"example.com/stock/lock/locktest/wire"
)

// How often a waiter sets its watch after the node before its own has gone.
const (
	lateWatches = 50 // the lab's own code
	lateWaits   = 4  // customers of the service
)

func existsWatch() lab.Scenario {
	return lab.Scenario{
		Name: "exists-watch-that-leaks", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedRedis, lab.NeedZooKeeper},
		Cases: slices.Concat(
			[]lab.Case{
				byHand("naive", lab.Leaks, "watches-with-exists"),
				byHand("fixed", lab.Safe, "watches-with-getdata"),
			},
			lab.Stated(lab.Safe, "", "zk-sequential"), // not zk-ephemeral: its holders share one node name
		),
		Run: func(b *lab.Testbed) lab.Observation {
			times := lateWaits
			if b.Case.Code != "" {
				times = lateWatches
				watchTooLate(b)
			} else {
				waitTooLate(b)
			}
			left := countWatches(b)
			b.Statement("zookeeper", fmt.Sprintf("wchp: %d", left))
			b.Evidence(lab.Served, left, "watches-left", "times", times, "left", left)
			if left >= times {
				return lab.Leaks.Seen()
			}
			b.Require(left == 0, "no watch is left")
			return lab.Safe.Seen()
		},
	}
}

// watchTooLate makes B watch nodes that were deleted after B had listed them.
func watchTooLate(b *lab.Testbed) {
	addr := b.Server(lab.NeedZooKeeper).Addr
	a, other := newQueuer(b, "A", addr), newQueuer(b, "B", addr)
	for range lateWatches {
		_, err := a.enter()
		b.Must("A", err)
		before := other.line()[0]
		a.leave(before)
		if b.Case.Code == "naive" {
			exists, _, _, err := other.conn.ExistsW(other.dir + "/" + before)
			b.Must("exists", err)
			b.Require(!exists, "the node is gone")
			b.Note("B", "watches-what-is-gone", "node", before)
			continue
		}
		_, _, _, err = other.conn.GetW(other.dir + "/" + before)
		b.Require(err != nil, "the node is gone")
		b.Note("B", "is-told-that-it-is-gone", "node", before)
	}
}

// waitTooLate does the same to customers of the service, by holding back the request for the watch until the node is
// gone.
func waitTooLate(b *lab.Testbed) {
	p := b.Proxy(lab.NeedZooKeeper)
	first, second := b.Apps(1)[0], b.Apps(1, b.Via(lab.NeedZooKeeper))[0]
	b.Stock(2 * lateWaits)
	for i := range lateWaits {
		a := b.BeginPaused(first, fmt.Sprintf("A%d", i+1), lab.BeforeWrite, lab.Request{Wait: lab.For(lab.Patience)})
		held := b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.Hold, Match: watches(b.SKU)})
		next := b.Begin(second, fmt.Sprintf("B%d", i+1), lab.Request{Wait: lab.For(lab.Patience)})
		b.Sprung(held, "watch-is-held-back")
		b.Require(a.Go().Reply().Outcome == loadtest.Accepted, "A is served")
		b.Eventually("the node of A is gone", func() bool { return b.Waiting(first) <= 0 })
		held.Release()
		b.Require(next.Reply().Outcome == loadtest.Accepted, "B is served")
	}
	b.Require(!b.Judge().Lost(), "nothing is lost")
}

// watches matches requests that read a node whose path contains text, or ask whether it exists, and watch it.
func watches(text string) func(message []byte) bool {
	const opExists, opGetData, at = 3, 4, 8
	return func(m []byte) bool {
		if len(m) < at+4 || m[len(m)-1] == 0 { // the last byte asks for the watch
			return false
		}
		op := binary.BigEndian.Uint32(m[at:])
		return (op == opExists || op == opGetData) && wire.Contains(text)(m)
	}
}

// countWatches returns how many watches the server keeps on nodes of this case.
func countWatches(b *lab.Testbed) (n int) {
	conn, err := net.Dial("tcp", b.Server(lab.NeedZooKeeper).Addr)
	b.Must("connect", err)
	defer conn.Close()
	_, err = io.WriteString(conn, "wchp")
	b.Must("wchp", err)
	reply, err := io.ReadAll(conn)
	b.Must("wchp", err)
	ours := false // a path, and below it a line for each session
	for line := range strings.Lines(string(reply)) {
		switch {
		case !strings.HasPrefix(line, "\t"):
			ours = strings.Contains(line, b.SKU)
		case ours:
			n++
		}
	}
	return n
}

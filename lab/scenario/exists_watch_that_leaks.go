package scenario

import (
	"fmt"
	"io"
	"net"
	"strings"

	"example.com/stock/lab"
)

// lateWatches is how often a waiter sets its watch after the node before its own has gone.
const lateWatches = 50

func existsWatch() lab.Scenario {
	return lab.Scenario{
		Name: "exists-watch-that-leaks", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedZooKeeper},
		Cases: []lab.Case{
			byHand("naive", lab.Leaks, "watches-with-exists"),
			byHand("fixed", lab.Safe, "watches-with-getdata"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			watchTooLate(b)
			left := countWatches(b)
			b.Statement("zookeeper", "", fmt.Sprintf("wchp: %d", left))
			b.Evidence(lab.Served, left, "watches-left", "times", lateWatches, "left", left)
			if left >= lateWatches {
				return lab.Leaks
			}
			b.Require(left == 0, "no watch is left")
			return lab.Safe
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

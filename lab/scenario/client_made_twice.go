package scenario

import (
	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
)

// clientMadeTwice is a connector that keeps its ZooKeeper client in a field.
func clientMadeTwice() lab.Scenario {
	return lab.Scenario{
		Name: "client-made-twice", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedZooKeeper},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "connects-again-without-closing"),
			byHand("naive", lab.Leaks, "two-threads-find-no-client"),
			byHand("fixed", lab.Safe, "closes-then-connects"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			addr := b.Server(lab.NeedZooKeeper).Addr
			if b.Case.Variant == "two-threads-find-no-client" {
				// Both have found the field empty before either has filled it.
				first, second := newQueuer(b, "A", addr), newQueuer(b, "A", addr)
				field := first
				field = second
				open := 0
				for _, q := range []*queuer{first, second} {
					if _, err := q.enter(); err == nil && q != field {
						open++
					}
				}
				b.Evidence(lab.Served, open, "sessions-nobody-closes", "sessions", open)
				b.Require(open == 1, "the session of the client that was overwritten lives")
				return lab.Leaks
			}
			old := newQueuer(b, "A", addr)
			node := old.dir + "/lock"
			_, err := old.create(node, nil, zk.FlagEphemeral)
			b.Must("create", err)
			b.Statement("A", "zookeeper", "create "+node)
			if b.Case.Code == "fixed" {
				old.conn.Close()
				b.Note("A", "session-is-closed")
			}
			again := newQueuer(b, "A", addr)
			b.Note("A", "new-session")
			_, err = again.create(node, nil, zk.FlagEphemeral)
			if err == nil {
				b.Evidence(lab.Answer, nil, "got-the-lock-again")
				return lab.Safe
			}
			b.Require(err == zk.ErrNodeExists, "the node of the old session is there")
			b.Evidence(lab.Served, nil, "node-of-the-old-session", "alive", old.conn.State() == zk.StateHasSession)
			return lab.Blocks
		},
	}
}

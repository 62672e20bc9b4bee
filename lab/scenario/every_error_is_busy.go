package scenario

import (
	"errors"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/wire"
)

// everyErrorIsBusy takes any error of create for "another has the lock".
func everyErrorIsBusy() lab.Scenario {
	return lab.Scenario{
		Name: "every-error-is-busy", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedZooKeeper},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "a-wrong-path"),
			byHand("naive", lab.Blocks, "a-lost-connection"),
			byHand("fixed", lab.Refuses, "a-wrong-path"),
			byHand("fixed", lab.Refuses, "a-lost-connection"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			p := zkProxy(b)
			a, other := newQueuer(b, "A", p.Addr()), newQueuer(b, "B", b.Server(lab.NeedZooKeeper).Addr)
			node := a.dir + "/lock"
			if b.Case.Variant == "a-wrong-path" {
				node = a.dir + "/no-such-parent/lock"
			} else {
				b.Trap(p, wire.Trap{On: wire.ToServer, Do: wire.CutReply, Match: wire.Contains(node)})
			}
			took, err := a.create(node, nil, zk.FlagEphemeral)
			b.Note("A", "created", "node", took, "error", err)
			if b.Case.Code == "fixed" && !errors.Is(err, zk.ErrNodeExists) {
				b.Evidence(lab.Answer, nil, "was-told", "who", "A", "answer", err)
				return lab.Refuses
			}
			b.Evidence(lab.Answer, false, "was-told", "who", "A", "answer", "false")
			exists, stat, err := other.conn.Exists(node)
			b.Must("exists", err)
			b.Evidence(lab.Served, exists, "node-of-the-lock", "exists", exists,
				"own", stat.EphemeralOwner == a.conn.SessionID())
			// With a wrong path nobody has the lock, and with a lost connection A itself has it: no release will come.
			b.Require(!exists || stat.EphemeralOwner == a.conn.SessionID(), "no other has the lock")
			return lab.Blocks
		},
	}
}

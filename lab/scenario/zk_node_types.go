package scenario

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
)

// zkNodeTypes shows the types of nodes: https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html ("Ephemeral
// Nodes", "Sequence Nodes", "Container Nodes", "TTL Nodes"). A lock is a node, so its type decides whether a crashed
// holder blocks others.
func zkNodeTypes() lab.Scenario {
	flags := map[string]int32{
		"persistent": 0, "persistent-sequential": zk.FlagSequence,
		"ephemeral": zk.FlagEphemeral, "ephemeral-sequential": zk.FlagEphemeral | zk.FlagSequence,
		"container": zk.FlagContainer, "with-a-ttl-of-an-hour": zk.FlagTTL,
	}
	return lab.Scenario{
		Name: "zk-node-types", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedZooKeeper},
		Cases: []lab.Case{
			byHand("naive", lab.Blocks, "persistent"),
			byHand("naive", lab.Blocks, "persistent-sequential"),
			byHand("naive", lab.Blocks, "container"),
			byHand("naive", lab.Blocks, "with-a-ttl-of-an-hour"),
			byHand("fixed", lab.Safe, "ephemeral"),
			byHand("fixed", lab.Safe, "ephemeral-sequential"),
		},
		Run: func(b *lab.Testbed) lab.Outcome {
			addr := b.Server(lab.NeedZooKeeper).Addr
			a, other := newQueuer(b, "A", addr), newQueuer(b, "B", addr)
			create := func(path string, flags int32) (made string, err error) {
				switch acl := zk.WorldACL(zk.PermAll); flags {
				case zk.FlagContainer:
					made, err = a.conn.CreateContainer(path, nil, flags, acl)
				case zk.FlagTTL:
					made, err = a.conn.CreateTTL(path, nil, flags, acl, time.Hour)
				default:
					made, err = a.conn.Create(path, nil, flags, acl)
				}
				b.Note("A", "created", "node", strings.TrimPrefix(made, a.dir+"/"), "error", err)
				return made, err
			}
			kind := flags[b.Case.Variant]
			sequential := strings.HasSuffix(b.Case.Variant, "sequential")
			ephemeral := strings.HasPrefix(b.Case.Variant, "ephemeral")
			first, err := create(a.dir+"/lock-", kind)
			b.Must("create", err)
			second, err := create(a.dir+"/lock-", kind)
			if !sequential {
				b.Require(err == zk.ErrNodeExists, "the same name is not given twice")
				b.Evidence(lab.Served, first, "name-is-taken", "node", strings.TrimPrefix(first, a.dir+"/"))
			} else {
				b.Must("create again", err)
				b.Evidence(lab.Served, second, "names-are-numbered", "one", strings.TrimPrefix(first, a.dir+"/"),
					"other", strings.TrimPrefix(second, a.dir+"/"))
			}
			_, err = create(first+"/child", 0)
			if ephemeral {
				b.Require(err == zk.ErrNoChildrenForEphemerals, "an ephemeral node has no children")
				b.Evidence(lab.Served, nil, "no-children")
			} else {
				b.Must("create a child", err)
				b.Evidence(lab.Served, nil, "has-children")
			}
			a.conn.Close()
			left := other.line()
			b.Statement("zookeeper", "", fmt.Sprintf("ls: %v", left))
			b.Evidence(lab.Served, left, "left-after-the-session", "nodes", fmt.Sprint(left))
			if len(left) > 0 {
				return lab.Blocks
			}
			return lab.Safe
		},
	}
}

package scenario

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lab"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/wire"
)

// The variants of a stale read: what B does on its follower.
const (
	readsFollower = "reads-its-follower"
	writesVersion = "writes-with-the-version"
	syncsFirst    = "syncs-first"
	makesItsNode  = "makes-its-node-first"
)

// zkStaleRead shows what a read promises: https://zookeeper.apache.org/doc/current/zookeeperProgrammers.html
// ("Consistency Guarantees"). Writes are linearizable; reads are not, because a server replies with its own state.
func zkStaleRead() lab.Scenario {
	return lab.Scenario{
		Name: "zk-stale-read", Group: lab.ZooKeeper,
		Needs: []lab.Need{lab.NeedZooKeeper},
		Slow:  true,
		Cases: []lab.Case{
			byHand("naive", lab.Oversells, readsFollower),
			byHand("fixed", lab.Refuses, writesVersion),
			byHand("fixed", lab.Safe, syncsFirst),
			byHand("fixed", lab.Safe, makesItsNode),
		},
		Together: func(beds []*lab.Testbed) []lab.Outcome {
			e := newEnsemble(beds[len(beds)-1]) // whose case is cleaned up last
			var all []*staleReader
			for _, b := range beds {
				all = append(all, newStaleReader(b, e))
			}
			from := time.Now()
			e.silence(wire.ToClient)
			for _, r := range all {
				r.sell()
			}
			e.silence()
			var seen []lab.Outcome
			for _, r := range all {
				r.b.Interval("wire", lab.Fault, "", from, "follower-hears-nothing", "for", time.Since(from))
				seen = append(seen, r.judge())
			}
			return seen
		},
	}
}

// An ensemble is three ZooKeepers. The first follows one of the others through a proxy.
type ensemble struct {
	servers []*server.Server
	links   []*wire.Proxy // from the first server to the others, one of which leads
}

// newEnsemble starts an ensemble, which ends with the case.
func newEnsemble(b *lab.Testbed) *ensemble {
	b.Fresh(server.Options{})
	e := new(ensemble)
	b.Defer(func() {
		for _, link := range e.links {
			_ = link.Close()
		}
	})
	started, err := b.Stack().StartZooKeeperEnsemble(b.Ctx, server.EnsembleOptions{
		Via: func(addr string) (string, error) {
			link, err := wire.Listen(addr, wire.Protocol{})
			if err != nil {
				return "", err
			}
			e.links = append(e.links, link)
			return link.Addr(), nil
		},
	})
	b.Must("an ensemble of zookeeper", err)
	e.servers = started.Servers
	b.Require(e.links[0].Connections()+e.links[1].Connections() > 0, e.servers[0].Name+" is a follower")
	return e
}

// silence holds back the messages between the first server and its leader.
func (e *ensemble) silence(directions ...wire.Direction) {
	for _, link := range e.links {
		link.Silence(directions...)
	}
}

// asked returns how many messages the first server has sent to its leader.
func (e *ensemble) asked() (n int) {
	for _, link := range e.links {
		n += link.Requests()
	}
	return n
}

// A staleReader has two customers of a node with the stock: A on a current server, and B on the first server, which
// hears nothing from its leader.
type staleReader struct {
	b     *lab.Testbed
	e     *ensemble
	a, of *queuer
	node  string
	began time.Time
	done  chan error // the result of B's request to the leader
	first int        // what B read before that
}

func newStaleReader(b *lab.Testbed, e *ensemble) *staleReader {
	r := &staleReader{b: b, e: e, done: make(chan error, 1)}
	r.a, r.of = newQueuer(b, "A", e.servers[2].Addr), newQueuer(b, "B", e.servers[0].Addr)
	r.node = r.a.dir + "/stock"
	_, err := r.a.create(r.node, []byte("1"), 0)
	b.Must("create", err)
	b.Eventually("the follower has the stock", func() bool {
		exists, _, err := r.of.conn.Exists(r.node)
		return err == nil && exists
	})
	b.Note(e.servers[0].Name, "has-the-stock", "quantity", 1)
	return r
}

// get reads the stock on a customer's server.
func (r *staleReader) get(q *queuer, server *server.Server) (units int, version int32) {
	data, stat, err := q.conn.Get(r.node)
	r.b.Must(q.who+": get", err)
	units, err = strconv.Atoi(string(data))
	r.b.Must(q.who+": get", err)
	r.b.Event(readOf(q.who, server.Name, units), "reads", "quantity", units)
	return units, stat.Version
}

// sell makes A sell the unit, and then B. B's request to the leader is still in progress when sell returns.
func (r *staleReader) sell() {
	ours, theirs := r.e.servers[0], r.e.servers[2]
	units, version := r.get(r.a, theirs)
	_, err := r.a.conn.Set(r.node, fmt.Append(nil, units-1), version)
	r.b.Must("A: set", err)
	r.b.Event(writeOf("A", theirs.Name, units-1), "writes", "quantity", units-1)
	left, _ := r.get(r.a, theirs)
	r.began = time.Now()
	asks := func(statement string, f func() error) {
		before := r.e.asked()
		r.b.EventSaying(lab.CaseEvent{At: r.began, Lane: "B", Kind: lab.Note, To: ours.Name}, statement)
		r.b.Go(func(context.Context) { r.done <- f() }) // f returns at the latest with the session
		r.b.Eventually("the follower asks the leader", func() bool { return r.e.asked() > before })
	}
	switch r.b.Case.Variant {
	case syncsFirst:
		asks("sync", func() error { _, err := r.of.conn.Sync(r.node); return err })
		return
	case makesItsNode:
		flags := int32(zk.FlagEphemeral | zk.FlagSequence)
		asks("create", func() error {
			_, err := r.of.create(r.of.dir+"/lock-", nil, flags)
			return err
		})
		return
	}
	r.first, version = r.get(r.of, ours)
	if r.first == 0 { // B read that nothing is left, and asks nothing
		r.done <- nil
		return
	}
	r.b.Evidence(lab.Served, r.first, "stale", "new", left, "old", r.first)
	if r.b.Case.Code == "naive" {
		version = -1 // any version
	}
	asks(fmt.Sprintf("set %d", r.first-1), func() error {
		_, err := r.of.conn.Set(r.node, fmt.Append(nil, r.first-1), version)
		return err
	})
}

// judge waits for B's request, after the follower is connected again.
func (r *staleReader) judge() lab.Outcome {
	b, ours := r.b, r.e.servers[0]
	var err error
	select {
	case err = <-r.done:
	case <-time.After(lab.Patience):
		b.Fatalf("B has no answer within %v", lab.Patience)
	}
	waited := time.Since(r.began)
	switch {
	case err == zk.ErrBadVersion:
		refusal := lab.CaseEvent{At: time.Now(), Lane: "B", Kind: lab.Refused, Who: "B", To: ours.Name}
		b.Event(refusal, "bad-version")
		b.Evidence(lab.Answer, err.Error(), "bad-version")
		return lab.Refuses
	case err != nil:
		b.Must("B", err)
	case r.first > 0:
		b.Event(writeOf("B", ours.Name, r.first-1), "writes", "quantity", r.first-1)
		b.Evidence(lab.Pair, []string{"A", "B"}, "both-sold", "one", "A", "other", "B", "read", r.first)
		b.Evidence(lab.Balance, nil, "balance", "initial", 1, "sold", 2, "left", r.first-1)
		return lab.Oversells
	}
	units, _ := r.get(r.of, ours)
	b.Evidence(lab.Served, units, "fresh", "quantity", units, "waited", waited)
	if units > 0 {
		b.Fatalf("B reads %d after the leader has answered", units)
	}
	return lab.Safe
}

package zklock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"example.com/stock/lock/explore"
)

// This file holds a model of how a keeper is told: a process that keeps its lease, another one that waits for the key,
// and one that only tries. What the folder says when the watch is set, and whether a try tells the keeper, is decided
// by the functions of the package; the server, with its watch and the order of its messages, is told again. See
// docs/exploration.md.

type keptRules struct {
	untouched func(own node, folder *zk.Stat) bool
	untold    func(queue []queueNode, head Contender) bool
	cutHeard  bool // a broken connection ends the hope to hear
	watches   bool // the folder is listed with a watch
}

func realKept() keptRules { return keptRules{node.untouched, untold, true, true} }

// keptState has one lease of the keeper, from its create.
type keptState struct {
	nodes   []string // at the server, in the order of creation, never changed in place
	zxid    int64    // the last transaction
	pzxid   int64    // the last change of the folder
	version int32    // of the keeper's node
	watch   bool     // the server has one

	asking  bool     // the keeper's request is on its way
	replies []string // on their way to the keeper, in this order: "list pzxid" or "event"
	wanted  bool
	working bool // a caller in the keeper's process has the lease
	over    bool // the keeper has released

	waits, served bool // the waiter has its node; has had the lock
	step          int  // of the try: 0 nothing, 1 it has listed, 2 it has read, 3 it has failed, 4 it has the lock
	queue         []queueNode
	head          Contender
	tries, cuts   int // that may still happen
}

const (
	keptOwn   = int64(7) // the transaction of the keeper's create
	keptName  = protected + "k" + keptMark + lockName + "0000000001"
	otherName = protected + "o" + lockName + "0000000002"
)

type keptModel struct{ rules keptRules }

func (m keptModel) steps(s keptState) (steps []explore.Step[keptState]) {
	add := func(lane int, calm bool, text string, change func(to *keptState)) {
		to := s
		change(&to)
		steps = append(steps, explore.Step[keptState]{
			Notes: []explore.Note{{Lane: lane, Text: text}}, Calm: calm, To: to,
		})
	}
	if s.asking {
		add(3, true, "lists the folder", func(to *keptState) {
			to.asking, to.watch = false, m.rules.watches
			to.replies = append(slices.Clone(to.replies), fmt.Sprint("list ", to.pzxid))
		})
	}
	if len(s.replies) > 0 {
		add(0, true, "hears "+s.replies[0], func(to *keptState) {
			folder := new(zk.Stat)
			if _, err := fmt.Sscanf(to.replies[0], "list %d", &folder.Pzxid); err != nil ||
				!m.rules.untouched(node{czxid: keptOwn}, folder) {
				to.wanted = true
			}
			to.replies = to.replies[1:]
		})
	}
	switch {
	case s.over:
	case s.working:
		add(0, true, "its caller is done", func(to *keptState) { to.working = false })
	case s.wanted:
		add(0, true, "releases", func(to *keptState) {
			to.over = true
			to.remove(keptName)
		})
	}
	if s.cuts > 0 && !s.over {
		add(0, false, "loses its connection", func(to *keptState) {
			to.cuts--
			to.asking, to.replies, to.watch = false, nil, false
			to.wanted = to.wanted || m.rules.cutHeard
		})
	}
	switch {
	case s.served:
	case !s.waits:
		add(1, false, "creates its node", func(to *keptState) {
			to.waits = true
			to.change()
			to.nodes = append(slices.Clone(to.nodes), otherName)
		})
	case s.nodes[0] == otherName:
		add(1, true, "has the lock and releases it", func(to *keptState) {
			to.served, to.waits = true, false
			to.remove(otherName)
		})
	}
	switch s.step {
	case 0, 3:
		if s.tries > 0 {
			add(2, false, "lists", func(to *keptState) {
				to.tries--
				to.step, to.queue, to.head = 1, parseQueue(to.nodes), Contender{}
				if len(to.nodes) == 0 {
					to.step = 4
				}
			})
		}
	case 1:
		add(2, true, "reads the head", func(to *keptState) {
			to.step = 2
			if name := to.queue[0].name; slices.Contains(to.nodes, name) {
				to.head.Node = name
				if name == keptName {
					to.head.version = to.version
				}
			}
		})
	case 2:
		add(2, true, "tells, or need not", func(to *keptState) {
			to.step = 3
			if m.rules.untold(to.queue, to.head) && slices.Contains(to.nodes, keptName) && to.version == 0 {
				to.version++
				to.change()
			}
		})
	}
	return steps
}

// change changes the nodes of the folder, in one transaction.
func (s *keptState) change() {
	s.zxid++
	s.pzxid = s.zxid
	if s.watch && !s.over {
		s.replies = append(slices.Clone(s.replies), "event")
	}
	s.watch = false
}

func (s *keptState) remove(name string) {
	s.nodes = slices.DeleteFunc(slices.Clone(s.nodes), func(o string) bool { return o == name })
	s.change()
}

// settled: nobody waits for a lease that nobody uses, and no try has failed because of one that is still kept.
func (m keptModel) settled(s keptState) error {
	switch {
	case s.waits:
		return errors.New("the waiter is forgotten")
	case s.step == 3 && !s.over:
		return errors.New("who tries again fails again")
	}
	return nil
}

func (m keptModel) model() explore.Model[keptState] {
	var starts []keptState
	for _, working := range []bool{true, false} {
		starts = append(starts, keptState{
			nodes: []string{keptName}, zxid: keptOwn, pzxid: keptOwn, asking: true, working: working, tries: 2, cuts: 1,
		})
	}
	return explore.Model[keptState]{
		Lanes: []string{"keeper", "waiter", "try", "zookeeper"}, Init: starts,
		Steps: m.steps, Settled: m.settled, MaxStates: 200_000,
		Key: func(s keptState) string { return fmt.Sprintf("%+v", s) },
	}
}

// Whoever waits or tries is heard, whatever the order of its requests and those of the keeper.
func TestKeptModel(t *testing.T) {
	result := explore.Explore(keptModel{rules: realKept()}.model())
	t.Log(result)
	explore.Holds(t, result)
}

// Every bug that is put back is found.
func TestKeptModelFindsBugs(t *testing.T) {
	for _, bug := range []struct {
		name string
		put  func(r *keptRules)
		want string
	}{
		{"the folder is listed without a watch", func(r *keptRules) { r.watches = false }, ""},
		{"what happened before the watch does not count", func(r *keptRules) {
			r.untouched = func(node, *zk.Stat) bool { return true }
		}, "forgotten"},
		{"a broken connection is no reason", func(r *keptRules) { r.cutHeard = false }, ""},
		{"a try only reads", func(r *keptRules) {
			r.untold = func([]queueNode, Contender) bool { return false }
		}, "fails again"},
		{"a try tells only who has been told", func(r *keptRules) {
			r.untold = func(queue []queueNode, head Contender) bool { return head.version > 0 }
		}, "fails again"},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			rules := realKept()
			bug.put(&rules)
			explore.Finds(t, explore.Explore(keptModel{rules: rules}.model()), bug.want)
		})
	}
}

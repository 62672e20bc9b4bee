package zklock

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock/explore"
)

// This file holds a model of Sequential: a folder of nodes, and clients that create, list, watch and delete. Where a
// node stands, and whether its owner may go in, is decided by the functions of the package. ZooKeeper and the loop
// around them are told again. See docs/exploration.md.

type zkRules struct {
	locate func(names []string, own string) place
	leads  func(p place) bool
	limit  func(alive time.Time) time.Time // when a holder that hears nothing gives its lease up
}

const zkModelTimeout = 6 * time.Second

func realSequential() zkRules {
	return zkRules{locate, place.leads, func(alive time.Time) time.Time {
		return (&generation{alive: alive, timeout: zkModelTimeout}).limit()
	}}
}

type zkBounds struct{ clients, turns, crashes, cuts, leaves, late int }

type zkPhase uint8

const (
	zkIdle zkPhase = iota
	zkListing
	zkSettingWatch
	zkWatching
	zkHolding
	zkOver // crashed, or cut off for good
)

type zkClient struct {
	phase  zkPhase
	turn   int
	name   string // of its node
	place  place
	event  bool          // the node that it watches was deleted, and it has not looked
	cut    bool          // its messages do not arrive any more, and it knows nothing of that
	silent time.Duration // since the server heard of it, by the server's clock
	heard  time.Duration // since its last heartbeat that was answered, by its own
}

type zkState struct {
	nodes   []string // names in the order of creation, never changed in place
	next    int32
	clients [3]zkClient

	crashes, cuts, leaves, late int
}

type zkModel struct {
	rules  zkRules
	bounds zkBounds
}

func (m *zkModel) model() explore.Model[zkState] {
	var lanes []string
	for i := range m.bounds.clients {
		lanes = append(lanes, "client "+strconv.Itoa(i+1))
	}
	b := m.bounds
	return explore.Model[zkState]{
		Lanes: append(lanes, "zookeeper"),
		// The sequence wraps with the second node.
		Init:  []zkState{{next: math.MaxInt32, crashes: b.crashes, cuts: b.cuts, leaves: b.leaves, late: b.late}},
		Steps: m.steps, Key: m.key, Check: m.check, Settled: m.settled, MaxStates: 500_000,
		Patience: time.Duration(b.crashes+b.cuts) * zkModelTimeout,
	}
}

func (m *zkModel) steps(s zkState) (steps []explore.Step[zkState]) {
	calm := true
	for i := range m.bounds.clients {
		c := s.clients[i]
		add := func(urgent bool, text string, change func(to *zkState, c *zkClient) error) {
			to := s
			step := explore.Step[zkState]{Notes: []explore.Note{{Lane: i, Text: text}}, Calm: urgent}
			step.Wrong = change(&to, &to.clients[i])
			step.To = to
			steps = append(steps, step)
			calm = calm && !urgent
		}
		remove := func(to *zkState, c *zkClient) error {
			to.remove(c.name)
			*c = zkClient{turn: c.turn}
			return nil
		}
		if c.cut && c.phase != zkHolding || c.phase == zkOver {
			continue
		}
		switch c.phase {
		case zkIdle:
			if c.turn < m.bounds.turns {
				add(false, "creates its node", func(to *zkState, c *zkClient) error {
					name := fmt.Sprintf("%s%d%d%s%010d", protected, i, c.turn, lockName, to.next)
					to.next++
					to.nodes = append(slices.Clone(to.nodes), name)
					*c = zkClient{phase: zkListing, turn: c.turn + 1, name: name}
					if len(to.nodes) == 1 { // node.alone
						c.phase = zkHolding
					}
					return nil
				})
			}
		case zkListing:
			p := m.rules.locate(s.nodes, c.name)
			switch {
			case !p.found:
				add(true, "lists: its node is gone", func(_ *zkState, c *zkClient) error {
					*c = zkClient{turn: c.turn}
					return nil
				})
			case p.ahead == 0:
				add(true, "lists: goes in", func(to *zkState, c *zkClient) error { return to.goIn(c) })
			default:
				add(true, fmt.Sprintf("lists: %d ahead", p.ahead), func(_ *zkState, c *zkClient) error {
					c.phase, c.place = zkSettingWatch, p
					return nil
				})
			}
		case zkSettingWatch:
			add(true, "watches "+whose(c.place.before), func(to *zkState, c *zkClient) error {
				if c.phase = zkWatching; !slices.Contains(to.nodes, c.place.before) {
					c.phase = zkListing
				}
				return nil
			})
		case zkWatching:
			if c.event {
				text := "hears of the deletion, looks again"
				if m.rules.leads(c.place) {
					text = "hears of the deletion, goes in"
				}
				add(true, text, func(to *zkState, c *zkClient) error {
					c.event = false
					if m.rules.leads(c.place) {
						return to.goIn(c)
					}
					c.phase = zkListing
					return nil
				})
			}
		case zkHolding:
			if !c.cut {
				add(true, "releases", remove)
			} else if !m.valid(c) {
				add(true, "notices that its session may be over", func(_ *zkState, c *zkClient) error {
					c.phase = zkOver
					return nil
				})
			}
		}
		if c.cut {
			continue
		}
		if s.leaves > 0 && (c.phase == zkListing || c.phase == zkWatching) {
			add(false, "gives up", func(to *zkState, c *zkClient) error {
				to.leaves--
				return remove(to, c)
			})
		}
		if s.crashes > 0 && c.phase != zkIdle {
			add(false, "crashes", func(to *zkState, c *zkClient) error {
				to.crashes--
				*c = zkClient{phase: zkOver, turn: c.turn, name: c.name}
				return nil
			})
		}
		if s.cuts > 0 && c.phase == zkHolding {
			add(false, "is cut off", func(to *zkState, c *zkClient) error {
				to.cuts--
				c.cut = true
				return nil
			})
		}
	}
	to := s
	ended := m.pass(&to)
	if !m.idle(s) {
		if to.late--; to.late < 0 {
			return steps
		}
	}
	step := explore.Step[zkState]{To: to, Takes: time.Second, Calm: calm && (len(s.nodes) > 0)}
	if ended != "" {
		step.Notes = []explore.Note{{Lane: m.bounds.clients, Text: "ends the session of " + ended}}
	}
	return append(steps, step)
}

func whose(name string) string { return "client " + string(name[len(protected)]+1) }

// goIn lets a client in, and says whether somebody whose node lives came before it.
func (s *zkState) goIn(c *zkClient) error {
	c.phase, c.place = zkHolding, place{}
	if at := slices.Index(s.nodes, c.name); at > 0 {
		return fmt.Errorf("%s is let in, although %s is ahead of it", whose(c.name), whose(s.nodes[at-1]))
	}
	return nil
}

// remove deletes a node, and tells whoever watches it. A client that is cut off does not hear of it.
func (s *zkState) remove(name string) {
	s.nodes = slices.DeleteFunc(slices.Clone(s.nodes), func(o string) bool { return o == name })
	for i := range s.clients {
		if c := &s.clients[i]; c.phase == zkWatching && c.place.before == name {
			c.event = true
		}
	}
}

// pass lets a second pass. The server ends a session that it has not heard of for the timeout.
func (m *zkModel) pass(s *zkState) (ended string) {
	for i := range s.clients {
		c := &s.clients[i]
		if c.name == "" || !c.cut && c.phase != zkOver {
			continue // its heartbeats are answered
		}
		c.silent = min(c.silent+time.Second, zkModelTimeout)
		c.heard = min(c.heard+990*time.Millisecond, zkModelTimeout)
		if c.silent >= zkModelTimeout && slices.Contains(s.nodes, c.name) {
			s.remove(c.name)
			ended = whose(c.name)
		}
	}
	return ended
}

func (m *zkModel) idle(s zkState) bool {
	for _, c := range s.clients[:m.bounds.clients] {
		switch c.phase {
		case zkListing, zkSettingWatch:
			return false
		case zkWatching:
			if c.event {
				return false
			}
		case zkHolding:
			if c.cut && !m.valid(c) {
				return false
			}
		}
	}
	return true
}

// valid reports whether a holder's lease is valid by its own clock.
func (m *zkModel) valid(c zkClient) bool {
	now := time.Unix(0, 0)
	return now.Before(m.rules.limit(now.Add(-c.heard)))
}

func (m *zkModel) check(s zkState) error {
	holder := ""
	for _, c := range s.clients {
		if c.phase != zkHolding || !m.valid(c) {
			continue
		}
		if holder != "" {
			return fmt.Errorf("%s and %s both hold a lease that is valid by their own clock", holder, whose(c.name))
		}
		holder = whose(c.name)
	}
	return nil
}

func (m *zkModel) settled(s zkState) error {
	for i, c := range s.clients {
		if c.phase != zkIdle && c.phase != zkOver {
			return fmt.Errorf("client %d is forgotten", i+1)
		}
	}
	if len(s.nodes) > 0 {
		return errors.New("a node is left behind")
	}
	return nil
}

func (m *zkModel) key(s zkState) string {
	var b strings.Builder
	fmt.Fprint(&b, s.nodes, s.next, s.crashes, s.cuts, s.leaves, s.late)
	for _, c := range s.clients[:m.bounds.clients] {
		fmt.Fprint(&b, c.phase, c.turn, c.name, c.place.before, c.place.ahead, c.event, c.cut, c.silent, c.heard, ";")
	}
	return b.String()
}

func exploreSequential(t *testing.T, r zkRules, b zkBounds) explore.Result {
	t.Helper()
	m := &zkModel{r, b}
	result := explore.Explore(m.model())
	t.Logf("%+v: %v", b, result)
	return result
}

// Whatever the order of events, nobody goes in while somebody is ahead, two leases are never valid at once, and
// everybody is served or crashes.
func TestSequentialModel(t *testing.T) {
	for _, b := range stacktest.Some(1, []zkBounds{
		{clients: 2, turns: 2, cuts: 1, leaves: 1, late: 6},
		{clients: 3, turns: 1, crashes: 1, leaves: 1, late: 1},
		{clients: 3, turns: 1, cuts: 1, crashes: 1, late: 2},
	}) {
		explore.Holds(t, exploreSequential(t, realSequential(), b))
	}
}

// Every bug that is put back is found.
func TestSequentialModelFindsBugs(t *testing.T) {
	b := zkBounds{clients: 3, turns: 1, cuts: 1, leaves: 1, late: 1}
	for _, bug := range []struct {
		name string
		put  func(r *zkRules)
		want string
	}{
		{"a waiter goes in when the one before it gives up", func(r *zkRules) {
			r.leads = func(place) bool { return true }
		}, "is ahead of it"},
		{"a waiter watches the head", func(r *zkRules) {
			r.locate = func(names []string, own string) place {
				p := locate(names, own)
				p.before = p.head
				return p
			}
			r.leads = func(place) bool { return true }
		}, "is ahead of it"},
		{"nodes are ordered by the value of the sequence, which wraps", func(r *zkRules) {
			r.locate = func(names []string, own string) place {
				mine, _ := parseName(own)
				p := place{head: own}
				last := queueNode{sequence: math.MinInt32}
				for _, name := range names {
					n, _ := parseName(name)
					p.found = p.found || name == own
					if n.sequence < mine.sequence {
						if p.ahead++; n.sequence >= last.sequence {
							last, p.before = n, name
						}
					}
				}
				return p
			}
		}, "is ahead of it"},
		{"a holder believes in its session for all of the timeout", func(r *zkRules) {
			r.limit = func(alive time.Time) time.Time { return alive.Add(zkModelTimeout) }
		}, "both hold"},
		{"a waiter waits for one that came later", func(r *zkRules) {
			r.locate = func(names []string, own string) place {
				p := locate(names, own)
				if p.ahead > 0 && len(names) > 0 {
					p.before = names[len(names)-1]
				}
				return p
			}
		}, ""},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			rules := realSequential()
			bug.put(&rules)
			explore.Finds(t, exploreSequential(t, rules, b), bug.want)
		})
	}
}

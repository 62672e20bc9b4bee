package redislock

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock"
	"example.com/stock/lock/explore"
	"example.com/stock/lock/explore/pureredis"
)

// This file holds a model of Redlock: three nodes, and clients that ask all of them at once. Renewals and releases are
// the scripts; that a try has won, that a renewal or a node counts, and when a lease is over is decided by the
// functions of the package. See docs/exploration.md.

type rlRules struct {
	wins           func(granted int, took time.Duration) bool
	stands         func(ours, others int) (renewed, lost bool)
	eligible       func(age time.Duration) bool
	keep           lock.Keep
	valid          func(k lock.Keep, t lock.Term, now time.Time) bool
	sent           func(left time.Duration) time.Duration
	renew, release string
}

const rlLease = 2 * time.Second

func realRedlock() rlRules {
	r := &Redlock{quorum: quorum(3), nodes: make([]*node, 3), o: RedlockOptions{Lease: rlLease}}
	return rlRules{
		wins: r.wins, stands: r.stands, keep: r.keep(), renew: renewSource, release: releaseSource,
		eligible: func(age time.Duration) bool {
			return identity{born: time.Now().Add(-age)}.eligible(rlLease) == nil
		},
		valid: func(k lock.Keep, t lock.Term, now time.Time) bool { return k.Over(t, now) == nil },
		sent:  func(left time.Duration) time.Duration { return left },
	}
}

// rlBounds says how much may happen. silent is how many answers a client does without: the request may be done later,
// or never, or was done. restarts is how many nodes come back empty.
type rlBounds struct{ clients, turns, silent, restarts, late int }

type rlAnswer byte

const (
	rlNone    rlAnswer = iota
	rlPending          // the request is on its way
	rlYes              // the node has granted or renewed the key
	rlNo               // it has another's
	rlGone             // it has none
	rlYoung            // it would have, but does not count
	rlUnknown
)

type rlPhase uint8

const (
	rlIdle rlPhase = iota
	rlTrying
	rlHolding
	rlRenewing
)

type rlClient struct {
	phase rlPhase
	turn  int
	at    [3]rlAnswer
	asked time.Duration // since the round began, by its own clock
	term  lock.Term
}

type rlNode struct {
	holder string
	ttl    time.Duration
	age    time.Duration // since its start; all that are old enough are equal
}

// rlRequest is on its way to a node although nobody waits for its answer.
type rlRequest struct {
	node  int
	value string
}

type rlState struct {
	nodes   [3]rlNode
	clients [3]rlClient
	wild    []rlRequest

	silent, restarts, late int
}

type rlModel struct {
	redis  *pureredis.Redis
	rules  rlRules
	bounds rlBounds
	failed error
}

func rlValue(i, turn int) string { return fmt.Sprintf("c%d:%d", i+1, turn) }

func (m *rlModel) model() explore.Model[rlState] {
	var lanes []string
	for i := range m.bounds.clients {
		lanes = append(lanes, clientName(i))
	}
	first := rlState{silent: m.bounds.silent, restarts: m.bounds.restarts, late: m.bounds.late}
	for i := range first.nodes {
		first.nodes[i].age = time.Hour
	}
	return explore.Model[rlState]{
		Lanes: append(lanes, "nodes"), Init: []rlState{first},
		Steps: m.steps, Key: m.key, Check: m.check, MaxStates: 500_000,
	}
}

func (m *rlModel) now() time.Time { return pureredis.Epoch() }

// eval runs a script on a node.
func (m *rlModel) eval(n *rlNode, script string, args ...string) int64 {
	var keys []pureredis.Key
	if n.holder != "" {
		keys = append(keys, pureredis.Key{Name: "k", Text: n.holder, TTL: n.ttl})
	}
	answer := m.redis.Eval(keys, script, []string{"k"}, args...)
	if answer.Err != nil {
		m.failed = answer.Err
	}
	k, _ := pureredis.Find(answer.Keys, "k")
	n.holder, n.ttl = k.Text, k.TTL
	reply, _ := answer.Reply.(int64)
	return reply
}

// setNX is what the function of the same name asks a node to do.
func (n *rlNode) setNX(value string) bool {
	if n.holder == "" {
		n.holder, n.ttl = value, rlLease
	}
	return n.holder == value
}

func (m *rlModel) steps(s rlState) (steps []explore.Step[rlState]) {
	nodes := m.bounds.clients
	add := func(to rlState, notes ...explore.Note) {
		steps = append(steps, explore.Step[rlState]{To: to, Notes: notes})
	}
	for i := range m.bounds.clients {
		c := s.clients[i]
		note := func(text string) explore.Note { return explore.Note{Lane: i, Text: text} }
		switch c.phase {
		case rlIdle:
			if c.turn < m.bounds.turns {
				to := s
				to.clients[i] = rlClient{phase: rlTrying, turn: c.turn + 1, at: [3]rlAnswer{1, 1, 1}}
				add(to, note("asks all nodes"))
			}
		case rlHolding:
			to := s
			m.leave(&to, i)
			if m.rules.keep.Over(c.term, m.now()) != nil {
				add(to, note("notices that its lease is over"))
				break
			}
			add(to, note("releases"))
			if !m.now().Before(c.term.Next) {
				to := s
				to.clients[i].phase, to.clients[i].asked = rlRenewing, 0
				to.clients[i].at = [3]rlAnswer{1, 1, 1}
				add(to, note("asks all for another lease"))
			}
		}
		for n, answer := range c.at {
			if answer != rlPending {
				continue
			}
			at := func(text string) explore.Note {
				return explore.Note{Lane: nodes, Text: fmt.Sprintf("node %d: %s", n+1, text)}
			}
			to := s
			got, text := m.handle(&to, i, n)
			done := to
			done.clients[i].at[n] = got
			add(done, m.decide(&done, i, at(text))...)
			steps[len(steps)-1].To = done
			if s.silent > 0 {
				to.silent--
				to.clients[i].at[n] = rlUnknown
				notes := m.decide(&to, i, at(text+", the answer is lost"))
				add(to, notes...)

				late := s
				late.silent--
				late.clients[i].at[n] = rlUnknown
				if c.phase == rlTrying { // a late renewal prolongs our key, or nothing
					late.wild = append(slices.Clone(s.wild), rlRequest{n, rlValue(i, c.turn)})
				}
				notes = m.decide(&late, i, at("the request is slow"))
				add(late, notes...)
			}
		}
	}
	for i, request := range s.wild {
		to := s
		to.wild = slices.Delete(slices.Clone(s.wild), i, i+1)
		to.nodes[request.node].setNX(request.value)
		add(to, explore.Note{Lane: nodes, Text: fmt.Sprintf(
			"node %d: what was slow arrives, it has %s", request.node+1, to.nodes[request.node].holder)})
	}
	for n := range s.nodes {
		if s.restarts > 0 {
			to := s
			to.restarts--
			to.nodes[n] = rlNode{}
			add(to, explore.Note{Lane: nodes, Text: fmt.Sprintf("node %d restarts, empty", n+1)})
		}
	}
	to := s
	if m.pass(&to); !m.idle(s) {
		if to.late--; to.late < 0 {
			return steps
		}
	}
	return append(steps, explore.Step[rlState]{To: to, Takes: time.Second})
}

// handle lets the request of a client come to a node.
func (m *rlModel) handle(s *rlState, i, n int) (answer rlAnswer, text string) {
	c, server := s.clients[i], &s.nodes[n]
	counts := m.rules.eligible(server.age)
	if c.phase == rlRenewing {
		reply := m.eval(server, m.rules.renew, rlValue(i, c.turn), strconv.Itoa(int(rlLease.Milliseconds())))
		switch err := ownership(int(reply), nil); {
		case errors.Is(err, lock.ErrExpired):
			return rlGone, clientName(i) + "'s key is gone"
		case err != nil:
			return rlNo, clientName(i) + "'s key is another's"
		case !counts:
			return rlYoung, "renewed, but is too young"
		}
		return rlYes, "renewed"
	}
	switch granted := server.setNX(rlValue(i, c.turn)); {
	case granted && counts:
		return rlYes, "grants it to " + clientName(i)
	case granted:
		return rlYoung, "is too young to count for " + clientName(i)
	}
	return rlNo, clientName(i) + " is refused"
}

// decide lets a client decide when all nodes have answered, or have had their time.
func (m *rlModel) decide(s *rlState, i int, first explore.Note) []explore.Note {
	c := &s.clients[i]
	if slices.Contains(c.at[:], rlPending) {
		return []explore.Note{first}
	}
	say := func(text string) []explore.Note { return []explore.Note{first, {Lane: i, Text: text}} }
	count := func(answer rlAnswer) (n int) {
		for _, got := range c.at {
			if got == answer {
				n++
			}
		}
		return n
	}
	ours := count(rlYes)
	if c.phase == rlTrying {
		if !m.rules.wins(ours, m.rules.sent(c.asked)) {
			m.leave(s, i)
			return say("has no majority in time")
		}
		c.phase, c.term, c.at = rlHolding, m.rules.keep.Begin(m.now().Add(-m.rules.sent(c.asked))), [3]rlAnswer{}
		return say(fmt.Sprintf("holds, by %d nodes", ours))
	}
	renewed, lost := m.rules.stands(ours, count(rlGone)+count(rlNo))
	if renewed {
		for n, got := range c.at {
			if got == rlGone {
				s.nodes[n].setNX(rlValue(i, c.turn))
			}
		}
	}
	c.phase, c.at = rlHolding, [3]rlAnswer{}
	switch {
	case m.rules.keep.Over(c.term, m.now()) != nil:
		return say("renewed too late")
	case renewed:
		c.term = m.rules.keep.Renewed(c.term, m.now().Add(-m.rules.sent(c.asked)))
		return say(fmt.Sprintf("holds on, by %d nodes", ours))
	case lost:
		m.leave(s, i)
		return say("has lost its majority")
	}
	c.term.Next = m.now().Add(m.rules.keep.Every / 10)
	return say("does not know, will ask again")
}

// leave deletes a client's key from all nodes. A request of its that is still on its way comes later.
func (m *rlModel) leave(s *rlState, i int) {
	turn := s.clients[i].turn
	for n := range s.nodes {
		m.eval(&s.nodes[n], m.rules.release, rlValue(i, turn))
	}
	s.clients[i] = rlClient{turn: turn}
}

func (m *rlModel) pass(s *rlState) {
	const local = time.Second - time.Second/modelDrift
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.ttl -= time.Second; n.ttl <= 0 {
			n.holder, n.ttl = "", 0
		}
		if n.age += time.Second; n.age > 2*rlLease {
			n.age = time.Hour
		}
	}
	now := m.now()
	for i := range s.clients {
		c := &s.clients[i]
		if c.asked = min(c.asked+local, modelOld); c.phase != rlTrying && c.phase != rlRenewing {
			c.asked = 0
		}
		if c.phase == rlHolding || c.phase == rlRenewing {
			c.term.Sent = now.Add(-modelOld)
			c.term.Until = later(c.term.Until.Add(-local), now)
			c.term.Next = later(c.term.Next.Add(-local), now)
		}
	}
}

func (m *rlModel) idle(s rlState) bool {
	for _, c := range s.clients {
		if c.phase == rlTrying || c.phase == rlRenewing ||
			c.phase == rlHolding && (!m.now().Before(c.term.Next) || m.rules.keep.Over(c.term, m.now()) != nil) {
			return false
		}
	}
	return true
}

func (m *rlModel) check(s rlState) error {
	if m.failed != nil {
		return m.failed
	}
	holder := ""
	for i, c := range s.clients {
		if c.phase != rlHolding && c.phase != rlRenewing || !m.rules.valid(m.rules.keep, c.term, m.now()) {
			continue
		}
		if holder != "" {
			return fmt.Errorf("%s and %s both hold a lease that is valid by their own clock", holder, clientName(i))
		}
		holder = clientName(i)
	}
	return nil
}

// key sorts the nodes: they are alike.
func (m *rlModel) key(s rlState) string {
	b := make([]byte, 0, 128)
	num := func(n time.Duration) { b = append(strconv.AppendInt(b, int64(n/time.Millisecond), 36), ' ') }
	var columns []string
	for n, node := range s.nodes {
		b = append(append(b, node.holder...), ' ')
		num(node.ttl)
		num(node.age)
		for _, c := range s.clients[:m.bounds.clients] {
			b = append(b, byte('0'+c.at[n]))
		}
		for _, request := range s.wild {
			if request.node == n {
				b = append(append(b, request.value...), ',')
			}
		}
		columns = append(columns, string(b))
		b = b[:0]
	}
	slices.Sort(columns)
	b = append(b, strings.Join(columns, "|")...)
	for _, c := range s.clients[:m.bounds.clients] {
		b = append(b, byte('0'+c.phase), byte('0'+c.turn))
		num(c.asked)
		if c.phase == rlHolding || c.phase == rlRenewing {
			num(c.term.Until.Sub(m.now()))
			num(c.term.Next.Sub(m.now()))
		}
	}
	return string(append(b, byte('0'+s.silent), byte('0'+s.restarts), byte('0'+s.late)))
}

func exploreRedlock(t *testing.T, r rlRules, b rlBounds) explore.Result {
	t.Helper()
	server, err := pureredis.New()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	m := &rlModel{redis: server, rules: r, bounds: b}
	result := explore.Explore(m.model())
	if m.failed != nil {
		t.Fatal(m.failed)
	}
	t.Logf("%+v: %v; %d scripts run", b, result, server.Runs)
	return result
}

// Whatever the order of events, two leases are never valid at once while at most one node forgets what it had.
func TestRedlockModel(t *testing.T) {
	spaces := []rlBounds{
		{clients: 2, turns: 1, late: 2},
		{clients: 2, turns: 1, silent: 1, late: 1},
		{clients: 2, turns: 1, restarts: 1},
	}
	if *deep {
		spaces = []rlBounds{{clients: 2, turns: 1, silent: 2, restarts: 1, late: 4}, {clients: 3, turns: 1, late: 3}}
	}
	for _, b := range stacktest.Some(1, spaces) {
		explore.Holds(t, exploreRedlock(t, realRedlock(), b))
	}
}

// Every bug that is put back is found.
func TestRedlockModelFindsBugs(t *testing.T) {
	for _, bug := range []struct {
		name   string
		put    func(r *rlRules)
		bounds rlBounds
	}{
		{"half of the nodes are a majority", func(r *rlRules) {
			half := &Redlock{quorum: 3 / 2, nodes: make([]*node, 3), o: RedlockOptions{Lease: rlLease}}
			r.wins = half.wins
		}, rlBounds{clients: 2, turns: 1}},
		{"the lease counts from the answer, not from before the request", func(r *rlRules) {
			r.sent = func(time.Duration) time.Duration { return 0 }
		}, rlBounds{clients: 2, turns: 1, late: 2}},
		{"the clocks' drift is not allowed for", func(r *rlRules) {
			r.valid = func(k lock.Keep, term lock.Term, now time.Time) bool {
				return now.Before(term.Until.Add(k.TTL - lock.Valid(k.TTL)))
			}
		}, rlBounds{clients: 2, turns: 1, late: 2}},
		{"a node that has just started counts", func(r *rlRules) {
			r.eligible = func(time.Duration) bool { return true }
		}, rlBounds{clients: 2, turns: 1, restarts: 1, silent: 1, late: 1}},
		{"a release does not look whose the key is", func(r *rlRules) {
			r.release = explore.PutBack(t, r.release, "if holder == ARGV[1] then", "if holder then")
		}, rlBounds{clients: 3, turns: 1}},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			rules := realRedlock()
			bug.put(&rules)
			explore.Finds(t, exploreRedlock(t, rules, bug.bounds), "")
		})
	}
}

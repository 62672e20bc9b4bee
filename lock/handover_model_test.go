package lock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/stock/internal/stack/stacktest"
	"example.com/stock/lock/explore"
)

// This file holds a model of HandOver in one process: who waits, the acquisition for all of them, and the lease that
// goes from one to the next. Each step makes a real queue of the state and calls the functions that decide: join,
// lead, leave, pass, lasts, outlive, begin, deliver with outgrown. What Acquire, lead, giveUp, settle and goOn make of
// them is told again, because they block or start a goroutine; so is the server. See docs/exploration.md.

// hoUnit is the unit of time of the model. It is long, so that a test that is held up does not see a deadline pass.
const hoUnit = time.Hour

type hoRules struct {
	mayContinue  func(h *handOver, b *batch) bool
	endIfOverdue bool // a newcomer ends an acquisition whose time is over
	deadlineGrew bool // an error by a deadline that has grown since is told to nobody
	passOn       bool // a grant that comes as its waiter gives up is settled
	ends         bool // the last waiter that gives up ends the acquisition
	patient      bool // a new lease is asked for after the old one was given back
	goesOn       bool // after an error the next is served
}

func realHandOver() hoRules {
	return hoRules{(*handOver).mayContinue, true, true, true, true, true, true}
}

// hoBounds says how much may happen. cancels is how many waiters give up before their deadline.
type hoBounds struct{ clients, turns, holders, cancels, faults, losses, late int }

type hoPhase uint8

const (
	hoIdle    hoPhase = iota
	hoLeading         // found nobody here, and asks by itself
	hoWaiting
	hoGranted // the grant has come, and it has not looked
	hoFailed  // an error has come
	hoHolding
	hoReleasing
	hoEnding // has given up as the last, and waits for the end of the acquisition
)

const hoEndless = 100 // of a deadline: there is none

type hoClient struct {
	phase   hoPhase
	turn    int
	left    int // until its deadline
	overdue bool
}

type hoState struct {
	clients   [3]hoClient
	order     []int // who waits, first come first; never changed in place
	open      bool  // the key has a queue
	until     int
	unlimited bool

	// Of the acquisition. first is its deadline as it was when it began, if it was limited then: the lock below may
	// have put it on a socket. noted: the acquisition remembers it. stuck: the lock below has seen the deadline pass,
	// and waits for the end of the context.
	asking, ended, limited, noted, stuck bool
	first                                int

	ours, theirs bool // this process, or another, has the lease
	lost         bool
	holders, age int // of the batch

	cancels, faults, losses, late int
}

type hoModel struct {
	rules  hoRules
	bounds hoBounds
}

// hoRanger is never asked: the model is the server.
type hoRanger struct{}

func (hoRanger) FenceRange() uint64 { return 64 }

func (hoRanger) Acquire(context.Context, string, Options) (*Lease, error) { panic("the model asks") }

type hoContext struct {
	context.Context
	until time.Time
}

func (c hoContext) Deadline() (time.Time, bool) { return c.until, !c.until.IsZero() }

// A hoLive is a state as the real code has it.
type hoLive struct {
	h       *handOver
	k       *keyQueue
	a       *acquisition
	b       *batch
	waiters [3]*waiter
	now     time.Time
	freed   bool
}

// live makes the real queue of a state.
func (m *hoModel) live(s hoState) *hoLive {
	now := time.Now()
	at := func(left int) time.Time { return now.Add(time.Duration(left) * hoUnit) }
	l := &hoLive{now: now, h: &handOver{inner: hoRanger{}, bound: Bound{Holders: m.bounds.holders, Time: 2 * hoUnit}}}
	l.k = new(shard).open("k")
	if !s.open {
		l.k.close()
	}
	for _, i := range s.order {
		l.waiters[i] = l.k.join(hoContext{context.Background(), time.Time{}}, Options{Owner: hoName(i)})
	}
	l.k.until, l.k.unlimited = at(s.until), s.unlimited
	if s.asking {
		ctx, end := context.WithCancelCause(context.Background())
		l.a = &acquisition{Context: ctx, end: end, queue: l.k, done: make(chan struct{})}
		if s.noted {
			l.a.first = at(s.first)
		}
		if s.ended {
			end(context.Canceled)
		}
	}
	l.k.acquisition = l.a
	if s.ours || s.lost {
		l.b = &batch{lease: l.lease(), since: at(-s.age), holders: s.holders}
	}
	if s.lost {
		l.b.lease.end(&LostError{"k", ErrExpired})
	}
	return l
}

func (l *hoLive) lease() *Lease {
	lease, _ := NewLease("k", NoFence, func(context.Context) error { l.freed = true; return nil })
	return lease
}

// save writes what the real code has made of a state into it.
func (l *hoLive) save(s *hoState) {
	left := func(t time.Time) int { return int(t.Sub(l.now).Round(hoUnit) / hoUnit) }
	s.order = nil
	for _, c := range l.k.waiters() {
		s.order = append(s.order, int(c.Who[len(c.Who)-1]-'1'))
	}
	for i, w := range l.waiters {
		if w == nil || s.clients[i].phase != hoWaiting || len(w.granted) == 0 {
			continue
		}
		g := <-w.granted
		if s.clients[i].phase = hoGranted; g.err != nil {
			s.clients[i].phase = hoFailed
			s.clients[i].overdue = errors.Is(g.err, context.DeadlineExceeded)
		} else if g.batch != l.b {
			s.lost, s.holders, s.age = false, 0, 0
		}
	}
	s.open = l.k.shard.keys["k"] != nil
	if s.unlimited = l.k.unlimited; !s.unlimited && !l.k.until.IsZero() {
		s.until = max(left(l.k.until), 0)
	}
	a := l.k.acquisition
	if s.asking, s.ended, s.noted = a != nil, false, false; a != nil {
		s.ended, s.noted = a.Err() != nil, !a.first.IsZero()
	}
	if a != l.a {
		if s.limited, s.first = a != nil && !s.unlimited, 0; s.limited {
			s.first = s.until
		}
	}
	if l.freed {
		s.ours = false
	}
}

func hoName(i int) string { return "client " + strconv.Itoa(i+1) }

func (m *hoModel) model() explore.Model[hoState] {
	var lanes []string
	for i := range m.bounds.clients {
		lanes = append(lanes, hoName(i))
	}
	b := m.bounds
	free := hoState{cancels: b.cancels, faults: b.faults, losses: b.losses, late: b.late}
	taken := free
	taken.theirs = true
	return explore.Model[hoState]{
		Lanes: append(lanes, "server"), Init: []hoState{taken, free}, MaxStates: 300_000,
		Steps: m.steps, Check: m.check, Settled: m.settled,
		Key: m.key,
	}
}

func (m *hoModel) key(s hoState) string {
	b := make([]byte, 0, 64)
	for _, c := range s.clients[:m.bounds.clients] {
		b = append(b, byte(c.phase), byte(c.turn), byte(c.left), flags(c.overdue))
	}
	b = append(b, flags(s.open, s.unlimited, s.asking, s.ended, s.limited, s.stuck),
		flags(s.noted, s.ours, s.theirs, s.lost),
		byte(s.until), byte(s.first), byte(s.holders), byte(s.age),
		byte(s.cancels), byte(s.faults), byte(s.losses), byte(s.late))
	for _, i := range s.order {
		b = append(b, byte(i))
	}
	return string(b)
}

func flags(set ...bool) (bits byte) {
	for _, b := range set {
		if bits <<= 1; b {
			bits |= 1
		}
	}
	return bits
}

func (m *hoModel) steps(s hoState) (steps []explore.Step[hoState]) {
	calm := true
	step := func(urgent bool, lane int, text string, change func(to *hoState, l *hoLive) error) {
		to, l := s, m.live(s)
		wrong := change(&to, l)
		l.save(&to)
		for i, c := range s.clients {
			if c.phase == hoWaiting && to.clients[i].phase == hoGranted && s.order[0] != i {
				wrong = fmt.Errorf("%s is served, although %s is ahead of it", hoName(i), hoName(s.order[0]))
			}
		}
		steps = append(steps, explore.Step[hoState]{
			To: to, Wrong: wrong, Calm: urgent, Notes: []explore.Note{{Lane: lane, Text: text}},
		})
		calm = calm && !urgent
	}
	server := m.bounds.clients
	for i := range m.bounds.clients {
		c := s.clients[i]
		switch c.phase {
		case hoIdle:
			for _, left := range []int{1, 2, hoEndless} {
				if c.turn < m.bounds.turns {
					step(false, i, hoWaits(left), func(to *hoState, l *hoLive) error { return m.enter(to, l, i, left) })
				}
			}
		case hoLeading:
			if !s.ours && !s.theirs {
				step(true, i, "is granted the lease", func(to *hoState, _ *hoLive) error {
					to.clients[i].phase, to.ours, to.holders, to.age = hoHolding, true, 1, 0
					return nil
				})
			}
			step(true, i, "must wait", func(to *hoState, l *hoLive) error {
				to.clients[i].phase = hoWaiting
				l.k.holder = Contender{Who: hoName(i)}
				l.waiters[i] = l.k.joinFirst(m.until(l, c.left), Options{Owner: hoName(i)})
				l.h.begin(l.k)
				return nil
			})
			if s.faults > 0 || c.left == 0 {
				step(c.left == 0, i, "gets no answer", func(to *hoState, l *hoLive) error {
					to.clients[i] = hoClient{turn: c.turn}
					if c.left > 0 {
						to.faults--
					}
					if m.rules.goesOn {
						m.acquireNext(l)
					}
					return nil
				})
			}
		case hoWaiting:
			if c.left == 0 || s.cancels > 0 {
				step(c.left == 0, i, "gives up", func(to *hoState, l *hoLive) error { return m.giveUp(to, l, i) })
			}
		case hoGranted:
			step(true, i, "holds", func(to *hoState, _ *hoLive) error {
				to.clients[i].phase = hoHolding
				if to.holders++; to.holders > m.bounds.holders {
					return errors.New("the lease has more holders than the bound")
				}
				return nil
			})
			if c.left == 0 || s.cancels > 0 {
				step(false, i, "gives up as the grant comes", func(to *hoState, l *hoLive) error {
					return m.giveUp(to, l, i)
				})
			}
		case hoFailed:
			step(true, i, "hears of the error", func(to *hoState, _ *hoLive) error {
				to.clients[i] = hoClient{turn: c.turn}
				if c.overdue && c.left > 0 {
					return fmt.Errorf("%s is told that its time is over, and it is not", hoName(i))
				}
				return nil
			})
		case hoHolding:
			step(true, i, "is done", func(to *hoState, l *hoLive) error { return m.settle(to, l, i) })
		case hoReleasing:
			step(true, i, "has given the lease back", func(to *hoState, l *hoLive) error {
				to.ours, to.lost, to.holders, to.age = false, false, 0, 0
				to.clients[i] = hoClient{turn: c.turn}
				if m.rules.patient {
					m.acquireNext(l)
				}
				return nil
			})
		}
	}
	deliver := func(urgent bool, text string, err error) {
		step(urgent, server, text, func(to *hoState, l *hoLive) error {
			var lease *Lease
			if err == nil {
				lease, to.ours = l.lease(), true
			} else if !m.rules.deadlineGrew {
				l.a.first = time.Time{}
			}
			next := l.h.deliver(l.k, l.a, lease, err)
			inTime := !s.ended && (!s.limited || s.first > 0)
			if err != nil && inTime && len(s.order) > 0 && len(l.waiters[s.order[0]].granted) == 0 {
				return errors.New("the first waiter is not told why the lock below has failed")
			}
			if !m.rules.goesOn && err != nil {
				l.k.acquisition, next = nil, nil
			}
			if l.k.acquisition != next {
				return errors.New("the queue has an acquisition that nobody makes")
			}
			to.stuck = false
			for i := range to.clients {
				if to.clients[i].phase == hoEnding {
					to.clients[i] = hoClient{turn: to.clients[i].turn}
				}
			}
			return nil
		})
	}
	if s.asking {
		if !s.ours && !s.theirs && !s.stuck {
			deliver(!s.ended, "grants the lease", nil)
		}
		if s.ended {
			deliver(true, "ends the question", context.Canceled)
		} else if s.limited && s.first == 0 && !s.stuck {
			deliver(false, "fails by the deadline", context.DeadlineExceeded)
		}
		if !s.ended && !s.unlimited && s.until == 0 && !s.stuck {
			step(false, server, "sees the deadline pass", func(to *hoState, _ *hoLive) error {
				to.stuck = true
				return nil
			})
		}
		if s.faults > 0 && !s.stuck {
			deliver(false, "fails", ErrDown)
			steps[len(steps)-1].To.faults--
		}
	}
	if s.theirs {
		step(calm, server, "another process gives the lease back", func(to *hoState, _ *hoLive) error {
			to.theirs = false
			return nil
		})
	}
	if s.losses > 0 && s.ours && !s.lost {
		step(false, server, "the lease is lost", func(to *hoState, _ *hoLive) error {
			to.losses--
			to.lost, to.ours = true, false
			return nil
		})
	}
	return m.pass(s, steps)
}

func hoWaits(left int) string {
	if left == hoEndless {
		return "comes, with no deadline"
	}
	return fmt.Sprintf("comes, for %v", time.Duration(left)*hoUnit)
}

// enter is what Acquire does.
func (m *hoModel) enter(s *hoState, l *hoLive, i, left int) error {
	s.clients[i] = hoClient{phase: hoWaiting, turn: s.clients[i].turn + 1, left: left}
	if !s.open {
		l.k.shard.keys["k"] = l.k
		s.clients[i].phase = hoLeading
		return nil
	}
	if l.a != nil && m.rules.endIfOverdue {
		l.a.endIfOverdue(l.now)
	}
	l.waiters[i] = l.k.join(m.until(l, left), Options{Owner: hoName(i)})
	return nil
}

func (m *hoModel) until(l *hoLive, left int) hoContext {
	ctx := hoContext{Context: context.Background()}
	if left != hoEndless {
		ctx.until = l.now.Add(time.Duration(left) * hoUnit)
	}
	return ctx
}

func (m *hoModel) giveUp(s *hoState, l *hoLive, i int) error {
	c := &s.clients[i]
	if c.left > 0 {
		s.cancels--
	}
	if c.phase == hoGranted { // leave finds it no more
		if m.rules.passOn {
			return m.settle(s, l, i)
		}
		*c = hoClient{turn: c.turn}
		return nil
	}
	l.k.leave(l.waiters[i])
	*c = hoClient{turn: c.turn}
	if l.a != nil && l.k.waiting == 0 && m.rules.ends {
		l.a.end(context.Canceled)
		c.phase = hoEnding
	}
	return nil
}

func (m *hoModel) settle(s *hoState, l *hoLive, i int) error {
	c := &s.clients[i]
	if m.rules.mayContinue(l.h, l.b) && l.k.pass(grant{batch: l.b}) {
		if *c = (hoClient{turn: c.turn}); s.lost {
			return errors.New("a lease that is lost is handed on")
		}
		return nil
	}
	c.phase, c.left = hoReleasing, 0
	if !m.rules.patient {
		m.acquireNext(l)
	}
	return nil
}

func (m *hoModel) acquireNext(l *hoLive) {
	if l.k.first == nil {
		l.k.close()
		return
	}
	l.h.begin(l.k)
}

// pass adds the step that lets time pass.
func (m *hoModel) pass(s hoState, steps []explore.Step[hoState]) []explore.Step[hoState] {
	to, busy, limited := s, false, false
	for i := range to.clients {
		c := &to.clients[i]
		busy = busy || c.phase != hoIdle && (c.phase != hoWaiting || c.left == 0)
		if c.phase != hoIdle && c.left > 0 && c.left < hoEndless {
			c.left--
			limited = true
		}
	}
	to.until, to.first = max(to.until-1, 0), max(to.first-1, 0)
	if to.ours {
		to.age = min(to.age+1, 2)
	}
	if busy || s.asking && (s.ended || !s.theirs && !s.ours) {
		if to.late--; to.late < 0 {
			return steps
		}
	}
	if !limited && !s.ours {
		return steps
	}
	return append(steps, explore.Step[hoState]{To: to, Takes: hoUnit})
}

func (m *hoModel) check(s hoState) error {
	holder := -1
	for i, c := range s.clients {
		if c.phase == hoLeading && (s.asking || s.ours) {
			return fmt.Errorf("a lease is asked for by %s beside that of this process", hoName(i))
		}
		if c.phase != hoHolding && c.phase != hoGranted && c.phase != hoReleasing {
			continue
		}
		if holder >= 0 {
			return fmt.Errorf("%s and %s both have the turn", hoName(holder), hoName(i))
		}
		if holder = i; s.asking {
			return fmt.Errorf("a lease is asked for while %s still has one", hoName(i))
		}
	}
	return nil
}

func (m *hoModel) settled(s hoState) error {
	for i, c := range s.clients {
		if c.phase != hoIdle {
			return fmt.Errorf("%s is forgotten", hoName(i))
		}
	}
	if s.ours || s.asking || s.open {
		return errors.New("nobody is here, and something is left behind")
	}
	return nil
}

func exploreHandOver(t *testing.T, r hoRules, b hoBounds) explore.Result {
	t.Helper()
	m := &hoModel{r, b}
	result := explore.Explore(m.model())
	t.Logf("%+v: %v", b, result)
	return result
}

// Whatever the order of events, one at a time has the turn, first come, first served; nobody is told of another's
// deadline; nobody is forgotten, and nothing is left behind.
func TestHandOverModel(t *testing.T) {
	for _, b := range stacktest.Some(2, []hoBounds{
		{clients: 2, turns: 1, holders: 2, cancels: 1, faults: 1, losses: 1, late: 1},
		{clients: 2, turns: 2, holders: 2, cancels: 1},
		{clients: 3, turns: 1, holders: 2, cancels: 1},
	}) {
		explore.Holds(t, exploreHandOver(t, realHandOver(), b))
	}
}

// Every bug that is put back is found.
func TestHandOverModelFindsBugs(t *testing.T) {
	b := hoBounds{clients: 2, turns: 1, holders: 1, cancels: 1, faults: 1, losses: 1}
	for _, bug := range []struct {
		name string
		put  func(r *hoRules)
		want string
	}{
		{
			"a waiter is told of a deadline that was another's",
			func(r *hoRules) { r.deadlineGrew = false }, "time is over",
		},
		{"a grant that comes as its waiter gives up is dropped", func(r *hoRules) { r.passOn = false }, ""},
		{"a lease is asked for before the old one is given back", func(r *hoRules) { r.patient = false }, "asked for"},
		{"nobody goes on after an error", func(r *hoRules) { r.goesOn = false }, "left behind"},
		{"a lost lease is handed on", func(r *hoRules) {
			r.mayContinue = func(h *handOver, b *batch) bool { return b.holders < h.bound.Holders }
		}, "lost"},
		{"a lease is handed on for ever", func(r *hoRules) {
			r.mayContinue = func(_ *handOver, b *batch) bool { return b.lease.Err() == nil }
		}, "bound"},
		{"a newcomer relies on a question that is overdue", func(r *hoRules) { r.endIfOverdue = false }, "forgotten"},
		{"the last waiter leaves its question behind", func(r *hoRules) { r.ends = false }, "left behind"},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			rules := realHandOver()
			bug.put(&rules)
			explore.Finds(t, exploreHandOver(t, rules, b), bug.want)
		})
	}
}

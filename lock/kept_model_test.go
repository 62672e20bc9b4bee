package lock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/stock/lock/explore"
)

// This file holds a model of kept leases: a process that keeps one, another process that wants the key, and the server
// with its queue and its messages. Whether a lease is kept and who may use it is decided by the real keep and take; the
// server, and when drop is called, are told again. See docs/exploration.md.

const (
	keepUnit  = time.Hour // long, so that a test that is held up does not see it pass; a waiter asks again in each
	keepLease = 3         // units until the server frees the key of a process that does not renew
	keepAge   = 5         // units for which a lease may be kept
)

type keepRules struct {
	keep  func(h *handOver, k *keyQueue, b *batch) bool
	take  func(h *handOver, k *keyQueue) *batch
	drops bool // a lease that nobody has is given back when it is wanted
	asks  bool // a waiter repeats its request
}

func realKeeping() keepRules {
	return keepRules{
		func(h *handOver, k *keyQueue, b *batch) bool { return h.mayKeep(b) && h.keep(k, b) },
		func(h *handOver, k *keyQueue) *batch { return h.take(k, Options{}) }, true, true,
	}
}

type keepPhase uint8

const (
	keepNone    keepPhase = iota // the process has no lease
	keepWorking                  // a local caller has it
	keepIdle                     // it is kept
)

// keepBudget says how much may still happen.
type keepBudget struct{ turns, lost, frozen, cut int }

type keepState struct {
	phase                   keepPhase
	fence, holders          int
	age, left               int // of the lease; left is until its end by the process's own clock
	wanted                  bool
	frozen, cut             bool // the process does nothing; it runs, and reaches nobody
	owed                    bool // a release has not reached the server, and is repeated
	server                  int  // who has the key there: 0 nobody, 1 this process, 2 the other
	ttl, minted             int  // at the server
	message                 bool // on its way to this process: somebody wants the key
	waits, holds, has, seen int  // of the other: 1 if it waits, holds, was served; the largest fence in the store
	budget                  keepBudget
}

type keepRanger struct{ hoRanger }

func (keepRanger) FenceRange() uint64 { return 3 }

// live returns the real batch of a state.
func (s keepState) live() (*handOver, *keyQueue, *batch) {
	now := time.Now()
	at := func(units int) time.Time { return now.Add(time.Duration(units) * keepUnit) }
	h := &handOver{inner: keepRanger{}, bound: Bound{Holders: 1, Time: keepUnit, Keep: keepAge * keepUnit}}
	k := new(shard).open("k")
	lease, _ := NewLease("k", Fence(s.fence), func(context.Context) error { return nil })
	wanted, end := context.WithCancel(context.Background())
	if s.wanted {
		end()
	}
	lease.Revocable(wanted, h.inner.FenceRange(), func() { end() }, nil)
	lease.lasts = (&Keep{TTL: keepLease * keepUnit}).follow(at(s.left - keepLease))
	b := &batch{lease: lease, since: at(-s.age), holders: s.holders}
	if s.phase == keepIdle {
		k.kept = b
	}
	return h, k, b
}

// give gives the key to a contender.
func (s *keepState) give(to int) {
	s.server, s.ttl = to, keepLease
	s.minted += 3 // the range of a lease
	if to == 2 {
		s.waits, s.holds = 0, s.minted
	}
}

// free is what leave.lua and the expiry of the key do.
func (s *keepState) free() {
	if s.server = 0; s.waits == 1 {
		s.give(2)
	}
}

// drop ends the lease of this process, and gives it back unless the process is cut off.
func (s *keepState) drop() {
	if s.owed = s.server == 1 && s.cut; s.server == 1 && !s.cut {
		s.free()
	}
	s.phase, s.wanted, s.fence, s.holders, s.age, s.left = keepNone, false, 0, 0, 0, 0
}

func (r keepRules) steps(s keepState) (steps []explore.Step[keepState]) {
	step := func(calm bool, lane int, text string, change func(*keepState) error) {
		to := s
		wrong := change(&to)
		steps = append(steps, explore.Step[keepState]{
			To: to, Wrong: wrong, Calm: calm, Notes: []explore.Note{{Lane: lane, Text: text}},
		})
	}
	const ours, server, other = 0, 1, 2
	write := func(to *keepState, fence int) error {
		if to.seen = max(to.seen, fence); fence < to.seen && to.holds == 0 && to.server == 1 {
			return errors.New("the holder's fence is older than one that the store has seen")
		}
		return nil
	}
	switch {
	case s.frozen:
		step(true, ours, "runs again", func(to *keepState) error { to.frozen = false; return nil })
	case s.phase == keepWorking:
		step(true, ours, "is done", func(to *keepState) error {
			wrong := write(to, s.fence+s.holders-1)
			h, k, b := s.live()
			defer b.stop()
			if r.keep(h, k, b) {
				to.phase = keepIdle
			} else {
				to.drop()
			}
			return wrong
		})
	case s.phase == keepIdle && s.left <= 0:
		step(true, ours, "sees that its lease is over", func(to *keepState) error { to.drop(); return nil })
	case s.phase == keepIdle && s.age >= keepAge:
		step(true, ours, "gives the old lease back", func(to *keepState) error { to.drop(); return nil })
	case s.phase == keepIdle && s.wanted && r.drops:
		step(true, ours, "gives the wanted lease back", func(to *keepState) error { to.drop(); return nil })
	case s.cut:
		step(true, ours, "reaches the server again", func(to *keepState) error {
			if to.cut, to.owed = false, false; s.owed && s.server == 1 {
				to.free()
			}
			return nil
		})
	}
	if s.message && !s.frozen && !s.cut {
		step(true, ours, "hears that the key is wanted", func(to *keepState) error {
			to.message, to.wanted = false, s.phase != keepNone
			return nil
		})
	}
	if s.budget.turns > 0 && !s.frozen && s.phase != keepWorking {
		step(false, ours, "has a caller", func(to *keepState) error { return r.come(s, to) })
	}
	if s.holds > 0 {
		step(true, other, "is done", func(to *keepState) error {
			wrong := write(to, s.holds)
			to.holds, to.has = 0, 1
			if s.server == 2 {
				to.free()
			}
			return wrong
		})
	} else if s.has == 0 && s.waits == 0 {
		step(true, other, "wants the key", func(to *keepState) error {
			if to.waits = 1; s.server == 0 {
				to.give(2)
			}
			to.message = s.server == 1
			return nil
		})
	}
	if s.message && s.budget.lost > 0 {
		step(false, server, "loses the message", func(to *keepState) error {
			to.budget.lost--
			to.message = false
			return nil
		})
	}
	if s.budget.frozen > 0 && !s.frozen {
		step(false, ours, "is frozen", func(to *keepState) error { to.budget.frozen--; to.frozen = true; return nil })
	}
	if s.budget.cut > 0 && !s.cut {
		step(false, ours, "is cut off", func(to *keepState) error { to.budget.cut--; to.cut = true; return nil })
	}
	if s.phase != keepNone || s.server == 1 {
		steps = append(steps, explore.Step[keepState]{
			To: r.pass(s), Takes: keepUnit, Calm: s.waits == 1,
			Notes: []explore.Note{{Lane: server, Text: "time passes"}},
		})
	}
	return steps
}

// come is a local caller.
func (r keepRules) come(s keepState, to *keepState) error {
	to.budget.turns--
	h, k, b := s.live()
	if taken := r.take(h, k); taken == b {
		to.phase, to.holders = keepWorking, s.holders+1
		if s.server == 2 || s.holds > 0 {
			return errors.New("it uses a lease, and another process has the key")
		}
		if to.holders > 3 {
			return errors.New("its fence is that of another lease")
		}
		return nil
	}
	if s.phase == keepNone && s.server == 0 && s.waits == 0 && !s.cut {
		to.give(1)
		to.phase, to.fence, to.holders, to.left = keepWorking, to.minted, 1, keepLease
	}
	return nil
}

// pass lets a unit of time pass: the lease is renewed if it can be, and the waiter repeats its request.
func (r keepRules) pass(s keepState) keepState {
	to := s
	if s.phase != keepNone {
		to.left, to.age = max(s.left-1, 0), min(s.age+1, keepAge)
	}
	if s.server == 1 {
		if to.ttl--; to.ttl == 0 {
			to.free()
		}
	}
	if s.phase != keepNone && !s.frozen && !s.cut && to.left > 0 {
		if to.server == 1 {
			to.left, to.ttl = keepLease, keepLease
		} else {
			to.left = 0 // the server says that the lease is lost
		}
	}
	if to.waits == 1 && to.server == 1 && r.asks {
		to.message = true
	}
	return to
}

func (r keepRules) explore(t *testing.T, b keepBudget) explore.Result {
	t.Helper()
	result := explore.Explore(explore.Model[keepState]{
		Lanes: []string{"keeper", "server", "other"}, Init: []keepState{{budget: b}}, Steps: r.steps,
		Key: func(s keepState) string {
			least := s.minted // only differences of fences are read
			for _, f := range []*int{&s.minted, &s.fence, &s.holds, &s.seen} {
				if *f > 0 {
					*f += 100 - least
				}
			}
			return fmt.Sprint(s)
		},
		Settled: func(s keepState) error {
			if s.has == 0 {
				return errors.New("the other process is not served")
			}
			return nil
		},
		Patience: keepUnit,
	})
	t.Logf("%+v: %v", b, result)
	return result
}

// Whatever happens to messages and to the keeper, no caller uses a lease that is another's, and another process waits
// no longer than until it repeats its request.
func TestKeptLeaseModel(t *testing.T) {
	b := keepBudget{turns: 5, lost: 2, frozen: 1, cut: 1}
	if testing.Short() {
		b.turns = 4
	}
	explore.Holds(t, realKeeping().explore(t, b))
}

func TestKeptLeaseModelFindsBugs(t *testing.T) {
	b := keepBudget{turns: 4, lost: 1, frozen: 1, cut: 1}
	if testing.Short() {
		b.turns = 3
	}
	always := func(_ *handOver, k *keyQueue) *batch { return k.kept }
	for _, bug := range []struct {
		name string
		put  func(r *keepRules)
		want string
	}{
		{"a keeper does not hear the revocation", func(r *keepRules) { r.drops = false }, "later than"},
		{"a waiter asks once", func(r *keepRules) { r.asks = false }, "later than"},
		{"a keeper uses what it has", func(r *keepRules) { r.take = always }, "another"},
		{"a lease is kept although it is wanted", func(r *keepRules) {
			r.keep = func(*handOver, *keyQueue, *batch) bool { return true }
			r.drops = false
		}, "later than"},
	} {
		t.Run(strings.ReplaceAll(bug.name, " ", "-"), func(t *testing.T) {
			rules := realKeeping()
			bug.put(&rules)
			explore.Finds(t, rules.explore(t, b), bug.want)
		})
	}
}

// Package explore visits every state that a small model of a protocol can reach, and finds the shortest path to a
// state that breaks a property.
//
// A test of a real client tries only the interleavings that its author thought of or that the scheduler happens to
// produce. Here a step is anything that can happen next: a message arrives or is lost, a client crashes, time passes
// while a client does nothing. Every order of steps is tried. That is feasible because equal states are visited only
// once: see Model.Key.
//
// The search is breadth first (as in TLC, the model checker of TLA+, https://lamport.azurewebsites.net/tla/tla.html,
// or in SPIN with -b). So the first violation found has the fewest steps. It is shown as a timeline.
//
// The package depends on no lock, only on the standard library. The models are in the tests of the packages whose
// code they run.
package explore

import (
	"fmt"
	"time"
)

// A Model describes a protocol. S is the whole state: of servers, clients and messages in transit. S must be a value: a
// step must not change the S that it starts from.
type Model[S any] struct {
	Lanes []string // names of servers and clients, in the order of the columns of a timeline
	Init  []S
	// Steps returns all steps that are possible in a state. The same state must give the same steps in the same
	// order, because a violation is shown by repeating its steps.
	Steps func(S) []Step[S]
	// Key is equal for states that behave in the same way from here on. States with equal keys count as one state, so
	// Key may omit only data that no later step reads. Each unneeded part of Key multiplies the number of states.
	Key func(S) string
	// Check returns an error for a wrong state, for example one with two holders.
	Check func(S) error
	// Settled returns an error for a wrong state at the end of a calm run, for example one in which a client still
	// waits. nil: calm runs are not checked. See Step.Calm.
	Settled func(S) error
	// Patience is the longest time that a calm run may take until it ends, from any state; 0: any.
	Patience time.Duration
	// MaxStates limits the states that are visited; default 4,000,000. A search that reaches it has no result.
	MaxStates int
}

// A Step is one thing that happens.
type Step[S any] struct {
	Notes []Note        // what it is, for the timeline: at most one for each lane
	Takes time.Duration // how much time passes; usually 0
	To    S
	// Wrong reports that the step itself breaks a property, whatever state it leads to: for example a stale write was
	// accepted.
	Wrong error
	// Calm marks the step that is taken if nothing goes wrong from now on: messages arrive, no client crashes, every
	// client acts in time, and a holder releases the lock. The first calm step of a state counts. From every reachable
	// state the calm steps must lead to an end in which every client was served. It is a violation if they form a
	// cycle, end before that, or take too long.
	Calm bool
}

// A Note describes the part of a step in one lane.
type Note struct {
	Lane int
	Text string
}

// A Result is the result of a search.
type Result struct {
	States    int
	Steps     int
	Depth     int  // the number of steps to the state that is farthest away
	Whole     bool // every state was visited
	Violation *Violation
}

// String returns a line for the log of a test.
func (r Result) String() string {
	space := "whole space"
	if !r.Whole {
		space = "not the whole space"
	}
	return fmt.Sprintf("%d states, %d steps, at most %d deep, %s", r.States, r.Steps, r.Depth, space)
}

// A node is a state that was reached. The state itself is not stored: stateOf computes it again from the path.
type node struct {
	parent  int32 // -1: an initial state
	via     int32 // index of the step of the parent, or of the initial state
	calm    int32 // the node after the calm step; -1: there is none
	takes   time.Duration
	settled error
}

// Explore visits the states of m breadth first, until one breaks a property or all were visited. Calm runs are
// checked last.
func Explore[S any](m Model[S]) Result {
	limit := m.MaxStates
	if limit == 0 {
		limit = 4_000_000
	}
	var (
		result Result
		nodes  []node
		known  = make(map[string]int32)
		layer  []S
	)
	add := func(s S, parent, via int) (index int32, fresh bool) {
		key := m.Key(s)
		if index, ok := known[key]; ok {
			return index, false
		}
		index = int32(len(nodes))
		known[key] = index
		nodes = append(nodes, node{parent: int32(parent), via: int32(via), calm: -1})
		return index, true
	}
	wrong := func(s S) error {
		if m.Check == nil {
			return nil
		}
		return m.Check(s)
	}
	for i, s := range m.Init {
		if _, fresh := add(s, -1, i); !fresh {
			continue
		}
		layer = append(layer, s)
		if err := wrong(s); err != nil {
			result.Violation = violation(m, nodes, len(nodes)-1, nil, err)
			return result
		}
	}
	for first := 0; len(layer) > 0; {
		var next []S
		for i, s := range layer {
			at, calm := first+i, false
			steps := m.Steps(s)
			for n, step := range steps {
				result.Steps++
				if step.Wrong != nil {
					result.States = len(nodes)
					result.Violation = violation(m, nodes, at, []int{n}, step.Wrong)
					return result
				}
				index, fresh := add(step.To, at, n)
				if step.Calm && !calm {
					calm = true
					nodes[at].calm, nodes[at].takes = index, step.Takes
				}
				if !fresh {
					continue
				}
				next = append(next, step.To)
				if err := wrong(step.To); err != nil {
					result.States = len(nodes)
					result.Violation = violation(m, nodes, int(index), nil, err)
					return result
				}
			}
			if !calm && m.Settled != nil {
				nodes[at].settled = m.Settled(s)
			}
		}
		if result.States = len(nodes); result.States > limit {
			return result
		}
		first += len(layer)
		if layer = next; len(layer) > 0 {
			result.Depth++
		}
	}
	result.Whole = true
	if m.Settled != nil {
		result.Violation = uncalm(m, nodes)
	}
	return result
}

// uncalm searches for a state whose calm run does not serve every client. It tries the states in the order of their
// distance from the start, so it finds the nearest one.
func uncalm[S any](m Model[S], nodes []node) *Violation {
	const unknown, walking = -1, -2
	takes := make([]time.Duration, len(nodes)) // until the end of the calm run
	for i := range takes {
		takes[i] = unknown
	}
	for i := range nodes {
		var way []int32
		at := int32(i)
		for takes[at] == unknown && nodes[at].calm >= 0 {
			takes[at] = walking
			way = append(way, at)
			at = nodes[at].calm
		}
		switch {
		case takes[at] == walking:
			return violation(m, nodes, i, calmSteps(m, nodes, i),
				fmt.Errorf("a calm run goes in a circle from here: somebody is never served"))
		case takes[at] == unknown && nodes[at].settled != nil:
			return violation(m, nodes, i, calmSteps(m, nodes, i), nodes[at].settled)
		case takes[at] == unknown:
			takes[at] = 0
		}
		total := takes[at]
		for n := len(way) - 1; n >= 0; n-- {
			total += nodes[way[n]].takes
			takes[way[n]] = total
		}
		if m.Patience > 0 && takes[i] > m.Patience {
			return violation(m, nodes, i, calmSteps(m, nodes, i), fmt.Errorf(
				"although nothing goes wrong any more the last is served only after %v, later than %v",
				takes[i], m.Patience))
		}
	}
	return nil
}

// calmSteps returns the numbers of the calm steps from a node to the end, or once around a cycle.
func calmSteps[S any](m Model[S], nodes []node, from int) (numbers []int) {
	seen := make(map[int32]bool)
	s := stateOf(m, nodes, from)
	for at := int32(from); nodes[at].calm >= 0 && !seen[at]; at = nodes[at].calm {
		seen[at] = true
		for n, step := range m.Steps(s) {
			if step.Calm {
				numbers = append(numbers, n)
				s = step.To
				break
			}
		}
	}
	return numbers
}

// stateOf computes the state of a node again.
func stateOf[S any](m Model[S], nodes []node, at int) S {
	start, numbers := wayTo(nodes, at)
	s := m.Init[start]
	for _, n := range numbers {
		s = m.Steps(s)[n].To
	}
	return s
}

// wayTo returns the path to a node: the initial state, and the numbers of the steps.
func wayTo(nodes []node, at int) (start int, numbers []int) {
	for ; nodes[at].parent >= 0; at = int(nodes[at].parent) {
		numbers = append(numbers, int(nodes[at].via))
	}
	for i, j := 0, len(numbers)-1; i < j; i, j = i+1, j-1 {
		numbers[i], numbers[j] = numbers[j], numbers[i]
	}
	return int(nodes[at].via), numbers
}

// violation repeats the path to a node and the steps after it, and records their events.
func violation[S any](m Model[S], nodes []node, at int, after []int, why error) *Violation {
	start, numbers := wayTo(nodes, at)
	v := &Violation{Lanes: m.Lanes, Why: why, Calm: -1}
	if len(after) > 1 {
		v.Calm = len(numbers)
	}
	s := m.Init[start]
	for _, n := range append(numbers, after...) {
		step := m.Steps(s)[n]
		v.Events = append(v.Events, Event{step.Notes, step.Takes})
		s = step.To
	}
	return v
}

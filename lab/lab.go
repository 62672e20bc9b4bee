// Package lab is the fault lab: every way in which a lock for stock fails, forced on real servers on the first run, judged, and mended.
//
// A scenario is one file with one literal, and one line in All. It says what is set up, what is forced, what must be seen of each
// strategy, why, and the fix. Nothing in it depends on luck: an interleaving is forced by the pause points of the service, by
// SIGSTOP and SIGKILL, by a proxy on the wire, or by commands to the servers. See docs/adr/0008-fault-lab.md.
//
// The lab is a client: it knows the service by its HTTP alone, and what a strategy promises by GET /v1/strategies. Wrong code that is
// no strategy is written here, in the files naive_*.go, against the servers directly.
package lab

import (
	"fmt"
	"strings"
)

// A Text is the same in two languages.
type Text struct{ EN, ZH string }

// In is the text in language "zh", or in English.
func (t Text) In(lang string) string {
	if lang == "zh" {
		return t.ZH
	}
	return t.EN
}

// String is the text in English.
func (t Text) String() string { return t.EN }

// A Group is a chapter of the catalogue.
type Group string

// The groups, in the order that teaches.
const (
	NoLock    Group = "A" // no lock, or the wrong one
	SetNX     Group = "B" // SETNX and its family
	Redlock   Group = "C"
	ZooKeeper Group = "D"
	MySQL     Group = "E"
	Fairness  Group = "F" // waiting: starvation, herds, deadlocks
)

// A Need is a server that a scenario cannot do without.
type Need string

// The needs. NeedRedlock is five more of Redis; NeedClocks is that each server can have a wall clock of its own.
const (
	NeedRedis     Need = "redis"
	NeedZooKeeper Need = "zookeeper"
	NeedMySQL     Need = "mysql"
	NeedRedlock   Need = "redlock"
	NeedClocks    Need = "clocks"
)

// A Scenario is one failure: how it is made to happen, and what must be seen of each Case.
type Scenario struct {
	Name  string // in kebab case, unique
	Group Group

	Title  Text // what fails, in a few words
	Setup  Text // what there is
	Forced Text // what is made to happen, in order
	Why    Text // why that does harm, or does not
	Fix    Text

	Needs []Need
	Cases []Case
	Quick bool // under 3 s for all cases: part of the subset that every test run makes

	// Predict says what must be seen of a case of a strategy, from what it promises. It is not asked where the case has a Want.
	Predict func(Case, Promise) Forecast
	// Run makes it happen to one case and says what was seen. It may stop half-way: see Bench.
	Run func(*Bench) Observation
	// Together, in place of Run, makes it happen to all cases at once, a Bench each, where one fault can serve them all.
	Together func([]*Bench) []Observation
}

// A Case is who a scenario is tried on: a strategy of the service, or a piece of the lab's own code.
type Case struct {
	Strategy string // of the catalogue; empty: Code
	Code     string // a piece of code of the lab: "naive", "mended", or what tells it from others
	Variant  string // what is different from other cases of the same; "" is the plain one
	Store    string // "redis" or "mysql"; empty: the strategy's default
	Want     Forecast
}

// Subject is the strategy, or the lab's own code.
func (c Case) Subject() string {
	if c.Strategy != "" {
		return c.Strategy
	}
	return c.Code
}

// String is unique among the cases of a scenario.
func (c Case) String() string {
	text := c.Subject()
	if c.Store != "" {
		text += " on " + c.Store
	}
	if c.Variant != "" {
		text += ", " + c.Variant
	}
	return text
}

// Cases makes a case of each strategy, all with the same variant.
func Cases(variant string, strategies ...string) []Case {
	var list []Case
	for _, name := range strategies {
		list = append(list, Case{Strategy: name, Variant: variant})
	}
	return list
}

// stated makes cases whose outcome the promise has no word for.
func stated(o Outcome, variant string, strategies ...string) []Case {
	list := Cases(variant, strategies...)
	for i := range list {
		list[i].Want = Forecast{Outcome: o}
	}
	return list
}

// concat joins lists of cases.
func concat(lists ...[]Case) []Case {
	var all []Case
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// each is for Together: the same for every bench.
func each(benches []*Bench, f func(*Bench) Observation) []Observation {
	seen := make([]Observation, len(benches))
	for i, b := range benches {
		seen[i] = f(b)
	}
	return seen
}

// Find finds scenarios by name. The error lists the names there are.
func Find(names ...string) ([]Scenario, error) {
	var found []Scenario
	for _, name := range names {
		s, err := find(name)
		if err != nil {
			return nil, err
		}
		found = append(found, s)
	}
	return found, nil
}

func find(name string) (Scenario, error) {
	var known []string
	for _, s := range All() {
		if s.Name == name {
			return s, nil
		}
		known = append(known, s.Name)
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q; there are %s", name, strings.Join(known, ", "))
}

// Package lab is the fault lab: it forces each way in which a lock for stock fails, on real servers and on the
// first run, and judges what it saw.
//
// A scenario of package lab/scenario defines the setup, the failure and the outcome to be seen for each strategy; its
// texts in two languages give the reason and the fix. No scenario depends on luck: interleavings are forced by the
// pause points of the service, by SIGSTOP and SIGKILL, by a proxy on the wire, or by commands to the servers. This
// package has what all scenarios need: servers and instances, requests, faults, the judgement, and the run. See
// docs/adr/0004-fault-lab.md.
//
// The lab is a client of the service's HTTP API. It reads the promises of the strategies from GET /v1/strategies.
package lab

import (
	"errors"
	"fmt"
	"slices"

	"example.com/stock/internal/words"
)

// A Group is a chapter of the catalogue.
type Group string

// The groups, in teaching order.
const (
	NoLock    Group = "A" // no lock, or the wrong one
	SetNX     Group = "B" // SETNX and its family
	Redlock   Group = "C"
	ZooKeeper Group = "D"
	MySQL     Group = "E"
	Fairness  Group = "F" // waiting: starvation, herds, deadlocks
	Orders    Group = "G" // orders: keys, reservations, carts, events
	Writers   Group = "H" // a cluster of databases that accepts writes on several nodes
)

// Groups returns all groups, in teaching order.
func Groups() []Group {
	return []Group{NoLock, SetNX, Redlock, ZooKeeper, MySQL, Fairness, Orders, Writers}
}

// Name returns the title of the chapter.
func (g Group) Name() Text { return say("groups." + string(g)) }

// A Need is a server that a scenario requires.
type Need string

// The needs. NeedRedlock is five further Redis servers. NeedClocks means that each server can have its own wall clock.
// NeedGalera is a cluster of three MariaDB nodes that all accept writes; Node has the needs for one of them.
const (
	NeedRedis     Need = "redis"
	NeedZooKeeper Need = "zookeeper"
	NeedMySQL     Need = "mysql"
	NeedRedlock   Need = "redlock"
	NeedClocks    Need = "clocks"
	NeedGalera    Need = "galera"
)

// nodes is the size of the cluster of NeedGalera.
const nodes = 3

// Node returns the need for the i-th node of the Galera cluster, from 1, for Testbed.Server and Testbed.Proxy.
func Node(i int) Need {
	if i == 1 {
		return NeedGalera
	}
	return Need(fmt.Sprintf("%s-%d", NeedGalera, i))
}

// A Scenario is one failure: how it is forced, and what each Case must show.
type Scenario struct {
	Name  string // in kebab case, unique
	Group Group
	Needs []Need
	Cases []Case
	Slow  bool // its first case takes 10 s or more: lab run --quick, which runs no other, leaves it out

	// Predict returns what a case must show, from the promise of its strategy. It is not called for a case with a Want.
	Predict func(Case, StrategyPromise) Forecast
	// Run forces the failure for one case and returns what was seen. It may stop half-way: see Testbed.
	Run func(*Testbed) Outcome
	// Together replaces Run for the strategies if one fault can serve all of them at once, and for all cases if there
	// is no Run. Each case has its Testbed.
	Together func([]*Testbed) []Outcome

	// The other fields come from a catalogue of texts: see Describe.

	Title  Text  // what fails, in a few words
	Setup  Text  // what is set up
	Forced Text  // what is forced, in order
	Why    Text  // why it is harmful or harmless
	Fix    Text  // how to prevent it
	Says   Texts // texts of the evidence and the timeline
}

// Find returns the scenarios of those names, or all for no name. It also serves package grade, whose scenarios have
// another type. The error for an unknown name lists all names.
func Find[S any](all []S, name func(S) string, names ...string) ([]S, error) {
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, s := range all {
		known = append(known, name(s))
	}
	var found []S
	for _, wanted := range names {
		i := slices.Index(known, wanted)
		if i < 0 {
			return nil, words.Unknown(say("scenario"), wanted, known)
		}
		found = append(found, all[i])
	}
	return found, nil
}

// A Case is the subject of a scenario: a strategy of the service, or a piece of the lab's own code.
type Case struct {
	Strategy string // of the catalogue; empty: Code
	Code     string // a piece of code of the lab: "naive", "fixed", or another name; or OrderService
	Variant  string // key of the difference to other cases of the same subject; "" is the plain case
	Store    string // "redis" or "mysql"; empty: the strategy's default
	Want     Forecast
	Label    Text // Variant in words, from the catalogue of texts
}

// Subject returns the strategy, or the lab's own code.
func (c Case) Subject() string {
	if c.Strategy != "" {
		return c.Strategy
	}
	return c.Code
}

// String returns the case in English. It is unique among the cases of a scenario.
func (c Case) String() string { return c.Said().EN }

// Said returns the case in both languages. Names of strategies and stores are not translated, because users type them.
func (c Case) Said() Text {
	said := same(c.Subject())
	if c.Code == "naive" || c.Code == "fixed" {
		said = say("case." + c.Code)
	}
	if c.Store != "" {
		said = say("case.on-store", "subject", said, "store", c.Store)
	}
	if c.Label.EN != "" {
		said = say("case.variant", "case", said, "variant", c.Label)
	}
	return said
}

// Same reports whether c and other are the same case of a scenario: whether their Strings are equal.
func (c Case) Same(other Case) bool {
	return c.Strategy == other.Strategy && c.Code == other.Code && c.Store == other.Store &&
		c.Label.EN == other.Label.EN
}

// Cases makes a case of each strategy, all with the same variant.
func Cases(variant string, strategies ...string) []Case {
	var list []Case
	for _, name := range strategies {
		list = append(list, Case{Strategy: name, Variant: variant})
	}
	return list
}

// Column returns the column of the case in the matrix: its strategy, OrderService, or "" for code of the lab.
func (c Case) Column() string {
	if c.Code == OrderService {
		return OrderService
	}
	return c.Strategy
}

// Stated makes cases with a stated outcome, for failures that the promise does not cover.
func Stated(o Outcome, variant string, strategies ...string) []Case {
	list := Cases(variant, strategies...)
	for i := range list {
		list[i].Want = Forecast{Outcome: o}
	}
	return list
}

// Each calls f for each testbed in turn, for use in Together.
func Each(beds []*Testbed, f func(*Testbed) Outcome) []Outcome {
	seen := make([]Outcome, len(beds))
	for i, b := range beds {
		seen[i] = f(b)
	}
	return seen
}

// Describe fills in the texts of a scenario from a catalogue: "scenarios.<name>.title" and so on, "variants.<variant>"
// for each of its cases, and all of "says". The error names every missing key.
func (s *Scenario) Describe(texts Texts) error {
	var wrong []error
	get := func(key string) Text {
		text, err := texts.Say(key)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("scenario %s: %w", s.Name, err))
		}
		return text
	}
	about := "scenarios." + s.Name + "."
	s.Title, s.Setup, s.Forced = get(about+"title"), get(about+"setup"), get(about+"forced")
	s.Why, s.Fix = get(about+"why"), get(about+"fix")
	for i := range s.Cases {
		if c := &s.Cases[i]; c.Variant != "" {
			c.Label = get("variants." + c.Variant)
		}
	}
	s.Says = texts.Under("says")
	return errors.Join(wrong...)
}

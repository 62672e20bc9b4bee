package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"example.com/stock/internal/stack"
	"example.com/stock/internal/words"
)

// A Kind is a kind of fault.
type Kind string

// The kinds. The first three are for instances and servers, the others for links.
const (
	Kill    Kind = "kill"    // SIGKILL, and a restart after Fault.For
	Freeze  Kind = "freeze"  // SIGSTOP for Fault.For
	Restart Kind = "restart" // SIGTERM, and a restart after Fault.For
	Cut     Kind = "cut"     // connections break, and new ones are refused for Fault.For
	Silence Kind = "silence" // messages are held back for Fault.For
	Slow    Kind = "slow"    // messages are delayed by Fault.By, both ways
)

// Kinds returns all kinds, in the order in which reports list them.
func Kinds() []Kind { return []Kind{Kill, Freeze, Restart, Cut, Silence, Slow} }

// The directions of a Silence.
const (
	bothWays   = "both-ways"
	toServer   = "to-server"
	fromServer = "from-server"
)

// A Fault is one fault of limited duration.
type Fault struct {
	Kind   Kind
	Target string        // app-2, redis, or the link app-2~redis
	Later  time.Duration // after the step began
	For    time.Duration
	By     time.Duration // the delay of Slow
	Way    string        // the direction of Silence
}

func (f Fault) String() string { return f.Said().EN }

// Said describes the fault.
func (f Fault) Said() words.Text {
	key, values := "plain", []any{"kind", say("kind." + string(f.Kind)), "target", f.Target, "time", f.For}
	switch f.Kind {
	case Slow:
		key, values = "slow", append(values, "by", f.By)
	case Silence:
		key = f.Way
	}
	return say("fault."+key, values...)
}

// A Step is a quiet time followed by one fault, or by two that overlap.
type Step struct {
	Quiet  time.Duration
	Faults []Fault
}

// Said describes the step.
func (s Step) Said() words.Text {
	var parts []words.Text
	for i, f := range s.Faults {
		text := f.Said()
		if i > 0 {
			text = say("step.later", "time", f.Later, "fault", text)
		}
		parts = append(parts, text)
	}
	return say("step.plan", "time", s.Quiet, "faults", words.Join(parts, say("step.between")))
}

// between joins the name of an instance and that of a server to the name of their link.
const between = "~"

func link(instance, server string) string { return instance + between + server }

// shops is the number of instances of the order service. A retry goes to the other one.
const shops = 2

// serverNames returns the servers that get faults, in a fixed order.
func serverNames() (names []string) {
	for _, kind := range stack.Kinds() {
		names = append(names, string(kind))
	}
	return names
}

// instanceNames returns the names that package stack gives to the instances of the demonstration, and to the shops.
func instanceNames() (names []string) {
	for i := range demos {
		names = append(names, fmt.Sprintf("app-%d", i+1))
	}
	for i := range shops {
		names = append(names, fmt.Sprintf("orders-%d", i+1))
	}
	return names
}

// lease is the lease of locks in Redis. ZooKeeper sessions last sessionMore longer. A process that is frozen for longer
// has lost its locks.
const (
	lease       = 3 * time.Second
	sessionMore = time.Second
)

// redisTimeout is how long an instance waits for a reply of Redis.
const redisTimeout = time.Second

// NewPlan draws the faults of a soak of about that length. The plan depends only on the arguments, and a longer plan
// begins with the shorter one. A slow restart of a server delays the later faults, and changes nothing else.
func NewPlan(seed uint64, length time.Duration, instances, servers []string) []Step {
	d := &dice{rand.New(rand.NewPCG(seed, 0x50a6)), instances, servers}
	var plan []Step
	for at := time.Duration(0); ; {
		step := d.step()
		if at += step.nominal(); at > length {
			return plan
		}
		plan = append(plan, step)
	}
}

// nominal returns how long a step takes if processes start at once.
func (s Step) nominal() time.Duration {
	longest := time.Duration(0)
	for _, f := range s.Faults {
		longest = max(longest, f.Later+f.For)
	}
	return s.Quiet + longest
}

// A dice draws faults from one sequence of random numbers.
type dice struct {
	*rand.Rand
	instances, servers []string
}

func (d *dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64((most-least)/time.Millisecond)))*time.Millisecond
}

func (d *dice) step() Step {
	s := Step{Quiet: d.between(time.Second, 4*time.Second), Faults: []Fault{d.fault()}}
	if d.IntN(3) > 0 {
		return s
	}
	second := d.fault()
	for second.Target == s.Faults[0].Target {
		second = d.fault()
	}
	second.Later = d.between(0, s.Faults[0].For+time.Millisecond)
	s.Faults = append(s.Faults, second)
	return s
}

func (d *dice) fault() Fault {
	one := func(list []string) string { return list[d.IntN(len(list))] }
	// Instances fail most often, because a dead or frozen holder tests a lock most.
	switch n := d.IntN(20); {
	case n < 8:
		return d.process(one(d.instances))
	case n < 13:
		return d.process(one(d.servers))
	default:
		return d.network(link(one(d.instances), one(d.servers)))
	}
}

func (d *dice) process(target string) Fault {
	f := Fault{Target: target, Kind: []Kind{Kill, Freeze, Freeze, Freeze, Restart}[d.IntN(5)]}
	switch n := d.IntN(6); {
	case f.Kind != Freeze:
		f.For = d.between(0, 3*time.Second)
	case n < 2:
		f.For = d.between(100*time.Millisecond, lease)
	case n < 4:
		// Just past the lease, when the next holder has begun but may not have written.
		f.For = d.between(lease+50*time.Millisecond, lease+500*time.Millisecond)
	default:
		f.For = d.between(lease, 2*lease+time.Second)
	}
	return f
}

func (d *dice) network(target string) Fault {
	f := Fault{Target: target, Kind: []Kind{Cut, Silence, Slow}[d.IntN(3)]}
	switch f.Kind {
	case Cut:
		f.For = d.between(0, 3*time.Second)
	case Silence:
		f.For = d.between(200*time.Millisecond, 2*lease+time.Second)
		if d.IntN(2) == 0 {
			// Just past the time limit of a command. It then arrives after its sender has given up and the next holder
			// has begun.
			f.For = d.between(redisTimeout, redisTimeout+500*time.Millisecond)
		}
		f.Way = []string{bothWays, toServer, fromServer}[d.IntN(3)]
	default:
		f.For, f.By = d.between(time.Second, 8*time.Second), d.between(5*time.Millisecond, 400*time.Millisecond)
	}
	return f
}

// Past reports whether a fault freezes an instance for longer than its leases.
func (f Fault) Past() bool {
	return f.Kind == Freeze && f.For > lease && !slices.Contains(serverNames(), f.Target)
}

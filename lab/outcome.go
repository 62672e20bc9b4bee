package lab

import (
	"fmt"
	"slices"
	"time"
)

// An Outcome is what a failure comes to, in one word: the words of the matrix. The set is closed.
type Outcome string

// The outcomes.
const (
	// the fault did no harm: every unit sold was there, nobody was held up for long or turned away
	Safe       Outcome = "safe"
	Oversells  Outcome = "oversells"  // an update was lost: sold, and not taken off the stock
	Refuses    Outcome = "refuses"    // the write that would have done harm was refused, and its customer was told
	Delays     Outcome = "delays"     // others wait, for a time with a known end
	Blocks     Outcome = "blocks"     // others wait until somebody repairs it
	Busy       Outcome = "busy"       // others are turned away at once, and can try again
	Duplicates Outcome = "duplicates" // one order is sold twice
	Aborts     Outcome = "aborts"     // the server ended one of them, whole: nothing is left half done
	HalfDone   Outcome = "half-done"  // a part of a piece of work was committed
	Starves    Outcome = "starves"    // some wait while those who came later are served
	Herds      Outcome = "herds"      // all who wait are woken for one to go on
	Repeats    Outcome = "repeats"    // of all who begin together one succeeds, and the others have worked for nothing
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{
		Safe,
		Oversells,
		Refuses,
		Delays,
		Blocks,
		Busy,
		Duplicates,
		Aborts,
		HalfDone,
		Starves,
		Herds,
		Repeats,
	}
}

// Word returns the outcome's name: in English the word itself.
func (o Outcome) Word() Text { return o.say("word", Text{string(o), string(o)}) }

// Means returns what the outcome stands for.
func (o Outcome) Means() Text { return o.say("means", Text{}) }

func (o Outcome) say(key string, unknown Text) Text {
	if !slices.Contains(Outcomes(), o) {
		return unknown
	}
	return say("outcomes." + string(o) + "." + key)
}

// A Forecast is what must be seen.
type Forecast struct {
	Outcome Outcome       `json:"outcome"`
	Within  time.Duration `json:"within_ns,omitempty"` // of Delays: the known end
	// the words of the promise that it follows from; empty: the promise has no word for it
	From string `json:"from,omitempty"`
}

func (f Forecast) String() string {
	if f.Within > 0 {
		return fmt.Sprintf("%s, up to %v", f.Outcome, f.Within)
	}
	return string(f.Outcome)
}

// slack is how much later than promised the end of a delay may be seen on a computer that does much else at the
// same time. The locks' own tests measure to the millisecond; here the word counts.
const slack = 10 * time.Second

// An Observation is what was seen.
type Observation struct {
	Outcome Outcome
	After   time.Duration // of Delays: how long it took
}

// agrees reports whether what was seen is what was to be seen.
func (f Forecast) agrees(o Observation) bool {
	return f.Outcome == o.Outcome && (f.Within == 0 || o.After <= f.Within+slack)
}

// Seen is the observation of an outcome that has no length.
func (o Outcome) Seen() Observation { return Observation{Outcome: o} }

// Delayed is the observation that others waited for so long.
func Delayed(d time.Duration) Observation { return Observation{Delays, d} }

package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

// An Outcome is the effect of a failure, as the word that the matrix shows. The set is closed.
type Outcome string

// The outcomes.
const (
	// the fault did no harm: every unit sold was in stock, and nobody waited long or was turned away
	Safe       Outcome = "safe"
	Oversells  Outcome = "oversells"  // an update was lost: sold, and not taken off the stock
	Refuses    Outcome = "refuses"    // the write that would have done harm was refused, and its customer was told
	Delays     Outcome = "delays"     // others wait, for a time with a known end
	Blocks     Outcome = "blocks"     // others wait until somebody repairs it
	Busy       Outcome = "busy"       // others are turned away at once, and can try again
	Duplicates Outcome = "duplicates" // one order is sold twice
	Aborts     Outcome = "aborts"     // the server ended one of them and left nothing half done
	HalfDone   Outcome = "half-done"  // a part of a piece of work was committed
	Starves    Outcome = "starves"    // some wait while those who came later are served
	Herds      Outcome = "herds"      // all waiters are woken so that one can go on
	Leaks      Outcome = "leaks"      // each try leaves something behind on the server, which nobody removes
	Repeats    Outcome = "repeats"    // of several that begin together one succeeds, and the others start again
	Loses      Outcome = "loses"      // what happened is told to nobody
	Reorders   Outcome = "reorders"   // what came first is told later
	Exceeds    Outcome = "exceeds"    // somebody has more than he may have
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
		Leaks,
		Repeats,
		Loses,
		Reorders,
		Exceeds,
	}
}

// Word returns the outcome's name: in English the word itself.
func (o Outcome) Word() Text { return o.text("word", Text{EN: string(o), ZH: string(o)}) }

// Means returns what the outcome stands for.
func (o Outcome) Means() Text { return o.text("means", Text{}) }

func (o Outcome) text(key string, unknown Text) Text {
	if !slices.Contains(Outcomes(), o) {
		return unknown
	}
	return say("outcomes." + string(o) + "." + key)
}

// A Forecast is what must be seen.
type Forecast struct {
	Outcome Outcome       `json:"outcome"`
	Within  time.Duration `json:"within_ns,omitempty"` // of Delays: the known end
	// the part of the promise from which it follows; empty: the scenario states it
	From string `json:"from,omitempty"`
}

func (f Forecast) String() string {
	if f.Within > 0 {
		return fmt.Sprintf("%s, up to %v", f.Outcome, f.Within)
	}
	return string(f.Outcome)
}

// slack is how much later than promised a delay may end on a loaded computer. The locks' own tests measure to the
// millisecond; the lab only tells outcomes apart.
const slack = 10 * time.Second

// An Observation is what was seen.
type Observation struct {
	Outcome Outcome
	After   time.Duration // of Delays: how long it took
}

// agrees reports whether what was seen is what was predicted.
func (f Forecast) agrees(o Observation) bool {
	return f.Outcome == o.Outcome && (f.Within == 0 || o.After <= f.Within+slack)
}

// Seen returns the observation of an outcome without a duration.
func (o Outcome) Seen() Observation { return Observation{Outcome: o} }

// Delayed returns the observation that others waited for d.
func Delayed(d time.Duration) Observation { return Observation{Delays, d} }

// Basis returns the part of the promise from which f follows, for people.
func (f Forecast) Basis() Text {
	var parts []Text
	for part := range strings.SplitSeq(f.From, ", ") {
		key := "basis." + strings.NewReplacer(": ", "-", " ", "-", "_", "-").Replace(part)
		text, err := phrases.Texts()
		if said, ok := text[key]; err == nil && ok {
			parts = append(parts, Text{EN: part, ZH: said.ZH})
			continue
		}
		parts = append(parts, same(part))
	}
	return words.Join(parts, say("comma"))
}

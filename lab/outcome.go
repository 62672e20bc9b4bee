package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

// An Outcome is the effect of a failure, a word in the matrix. The set is closed.
type Outcome string

// The outcomes.
const (
	// no harm: every unit sold was in stock, and no customer waited long or was refused
	Safe       Outcome = "safe"
	Oversells  Outcome = "oversells"  // an update was lost: a unit was sold and not deducted
	Refuses    Outcome = "refuses"    // the harmful write was refused, and its customer got an error
	Delays     Outcome = "delays"     // others wait, for a bounded time
	Blocks     Outcome = "blocks"     // others wait until an operator repairs it
	Busy       Outcome = "busy"       // others are refused at once, and can try again
	Duplicates Outcome = "duplicates" // one order is sold twice
	Aborts     Outcome = "aborts"     // the server rolled one transaction back completely
	HalfDone   Outcome = "half-done"  // only a part of a piece of work was committed
	Starves    Outcome = "starves"    // some wait while later ones are served
	Herds      Outcome = "herds"      // all waiters are woken although only one can proceed
	Leaks      Outcome = "leaks"      // each try leaves something on the server that is never removed
	Repeats    Outcome = "repeats"    // of several that begin together one succeeds; the others start again
	Loses      Outcome = "loses"      // an event is never delivered, or a sale that was answered is forgotten
	Reorders   Outcome = "reorders"   // events are delivered out of order
	Exceeds    Outcome = "exceeds"    // a customer got more than the limit
)

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	return []Outcome{
		Safe, Oversells, Refuses, Delays, Blocks, Busy, Duplicates, Aborts, HalfDone, Starves, Herds, Leaks, Repeats,
		Loses, Reorders, Exceeds,
	}
}

// Word returns the outcome's name in both languages.
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
	Within  time.Duration `json:"within_ns,omitempty"` // the bound of Delays
	// the part of the promise from which the forecast follows; empty: the scenario states it
	From string `json:"from,omitempty"`
}

func (f Forecast) String() string {
	if f.Within > 0 {
		return fmt.Sprintf("%s, up to %v", f.Outcome, f.Within)
	}
	return string(f.Outcome)
}

// slack is how much later than promised a delay may end on a loaded computer. The tests of the locks measure to the
// millisecond; the lab only distinguishes outcomes.
const slack = 10 * time.Second

// agrees reports whether f predicts o, and for Delays its duration.
func (f Forecast) agrees(o Outcome, after time.Duration) bool {
	return f.Outcome == o && (f.Within == 0 || after <= f.Within+slack)
}

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

package loadtest

import (
	"fmt"
	"strings"
)

// decide draws the finding from the reasons, and compares it with what was promised. mapped: it was not promised but is expected.
func (v *Verdict) decide(p Promise, mapped bool) {
	stock, replies, evidence := v.has(AboutStock), v.has(AboutReplies), v.has(AboutEvidence)
	v.RaceSeen = stock
	switch {
	case stock || replies:
		v.Finding = Broken
	case evidence:
		v.Finding = Undecided
	default:
		v.Finding = Holds
	}
	// The promise is about stock. That replies are true is promised by the service, whatever the strategy.
	if replies {
		v.Sentence = "The service contradicts itself, which no strategy allows."
		return
	}
	v.Kept, v.Sentence = v.kept(p, mapped)
}

const nothingRaced = "Nothing could race: each request was sent after the reply to the one before."

func (v *Verdict) kept(p Promise, mapped bool) (bool, string) {
	open := v.Finding == Undecided // also where nothing is promised: a run in which every request failed shows nothing
	switch p.Scope {
	case Nowhere:
		switch {
		case v.RaceSeen:
			return true, "As expected, since no exclusion is promised: " + v.damage() + "."
		case open:
			return false, "No exclusion is promised. Whether stock was lost cannot be told."
		}
		if v.OneAtATime {
			return true, nothingRaced
		}
		v.Luck = true
		return true, "The race was not seen in this run. That is luck: no exclusion is promised."
	case Process:
		switch {
		case v.Instances > 1 && v.RaceSeen:
			return true, fmt.Sprintf("As expected, since exclusion is promised within one instance and %d sold: %s.", v.Instances, v.damage())
		case v.Instances > 1 && !open && v.OneAtATime:
			return true, nothingRaced
		case v.Instances > 1 && !open:
			v.Luck = true
			return true, fmt.Sprintf("The race was not seen in this run. That is luck: exclusion is promised within one instance, and %d sold.", v.Instances)
		}
	case Cluster:
	default:
		return false, fmt.Sprintf("The target promises a scope of %q, which is not known here.", p.Scope)
	}
	claim := "exclusion is promised in the whole cluster"
	switch {
	case mapped:
		claim = "no inventory service may lose stock"
	case p.Scope == Process:
		claim = "exclusion is promised within one instance"
	}
	switch v.Finding {
	case Holds:
		return true, fmt.Sprintf("Kept: %s, and no update was lost.", claim)
	case Broken:
		return false, fmt.Sprintf("NOT KEPT: %s, but %s.", claim, v.damage())
	default:
		return false, fmt.Sprintf("%s. Whether that was kept cannot be told.", strings.ToUpper(claim[:1])+claim[1:])
	}
}

// damage says what was lost, in a clause.
func (v *Verdict) damage() string {
	var parts []string
	add := func(n int64, noun, what string) {
		if n > 0 {
			parts = append(parts, plural(n, noun)+" "+what)
		}
	}
	if v.Known {
		add(v.LostUnits, "unit", "lost")
		add(-v.LostUnits, "unit", "vanished")
	}
	add(v.OversoldUnits, "unit", "oversold")
	if len(parts) == 0 {
		add(int64(v.Collisions), "pair", "of orders collided")
		add(int64(v.FalseSoldOut), "request", "wrongly told sold out")
		add(int64(v.FenceDrops), "fence", "went backwards")
		add(int64(v.StaleReads), "order", "with a stale read")
	}
	if len(parts) == 0 {
		return "the stock is wrong"
	}
	return strings.Join(parts, " and ")
}

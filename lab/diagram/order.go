package diagram

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"example.com/stock/lab"
)

// This file puts the beginnings and ends of events in an order that could have happened. They were recorded when their
// replies arrived, or when polling noticed them.

// A moment is the beginning or the end of an event.
type moment struct {
	at    time.Time
	event int
	end   bool
}

// moments returns the beginnings of all events and the ends that are drawn.
func (m *maker) moments() []moment {
	var list []moment
	last := m.events[0].At
	for _, e := range m.events {
		if e.Kind != lab.Fault && e.Kind != lab.Standing {
			last = later(last, later(e.At, e.Until))
		}
	}
	for i, e := range m.events {
		switch {
		case e.Kind == lab.Lease && !e.Until.IsZero() || len(e.Woken) > 0:
			continue
		case e.Until.IsZero() || e.Kind == lab.Paused && m.diedIn(e):
		case e.Kind == lab.Paused,
			e.Kind == lab.Standing && e.Until.After(e.At) && e.Until.Before(last),
			e.Kind == lab.Fault && e.Until.Before(last) && m.lasts(e):
			list = append(list, moment{e.Until, i, true})
		}
		list = append(list, moment{e.At, i, false})
	}
	slices.SortStableFunc(list, func(a, b moment) int {
		return cmp.Or(a.at.Compare(b.at), boolean(b.end)-boolean(a.end), cmp.Compare(a.event, b.event))
	})
	return list
}

// diedIn reports whether the process of a paused request was killed during the pause, so that nothing went on. Older
// runs say so only in the text.
func (m *maker) diedIn(pause lab.CaseEvent) bool {
	return slices.ContainsFunc(m.events, func(f lab.CaseEvent) bool {
		killed := f.Point == lab.Killed || strings.Contains(f.Text, " is killed") ||
			strings.HasSuffix(f.Text, " is dead")
		return f.Kind == lab.Fault && killed && f.Lane == pause.Lane && f.At.After(pause.At) && !f.At.After(pause.Until)
	})
}

// lasts reports whether a fault is drawn as an interval: it is long, or another event falls into it.
func (m *maker) lasts(e lab.CaseEvent) bool {
	return e.Until.Sub(e.At) >= shortFault || slices.ContainsFunc(m.events, func(o lab.CaseEvent) bool {
		return o.At.After(e.At) && o.At.Before(e.Until)
	})
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// causes sorts reads and writes into the store's order. Both are recorded when their replies arrive, so their times may
// be in the wrong order. The versions give the right one: a read of a version comes after the write that made it, and
// before the first write that is based on it.
func (m *maker) causes(list []moment) {
	for again, rounds := true, 0; again && rounds < len(list); rounds++ {
		again = false
		for i, later := range list {
			for j, earlier := range list[:i] {
				if m.turnedRound(list[:j], later, earlier) {
					m.bringForward(list[j:i+1], earlier.at)
					again = true
					break
				}
			}
		}
	}
}

// grants puts the end of a hold, as the server regarded it, before the grant to the next holder: the server grants a
// lock only when it is free. The end is noticed by polling, so it may be recorded after the grant.
func (m *maker) grants(list []moment) {
	for i := 1; i < len(list); i++ {
		end := m.events[list[i].event]
		if !list[i].end || end.Kind != lab.Standing {
			continue
		}
		for j, granted := range list[:i] {
			g := m.events[granted.event]
			if g.Kind == lab.Gets && g.To == end.Lane && short(g.Who) != short(end.Who) && g.At.After(end.At) {
				moved := list[i]
				moved.at = granted.at
				copy(list[j+1:i+1], list[j:i])
				list[j] = moved
				break
			}
		}
	}
}

// turnedRound reports whether the later of two moments caused the earlier one. before has the moments that precede
// both.
func (m *maker) turnedRound(before []moment, later, earlier moment) bool {
	l, e := m.events[later.event], m.events[earlier.event]
	if later.end || earlier.end || l.Version == 0 || l.To != e.To || l.Who == e.Who {
		return false
	}
	switch {
	case l.Kind == lab.Read && e.Kind == lab.Write:
		return l.Version == e.Version
	case l.Kind == lab.Write && e.Kind == lab.Read:
		// If an update was lost, two writes are based on one version. The first of them made the next version.
		return l.Version+1 == e.Version && !slices.ContainsFunc(before, func(b moment) bool {
			o := m.events[b.event]
			return o.Kind == lab.Write && o.Version == l.Version
		})
	}
	return false
}

// bringForward moves the last moment of list, and those of the same customer, before all others.
func (m *maker) bringForward(list []moment, at time.Time) {
	who := m.events[list[len(list)-1].event].Who
	own := func(x moment) int { return 1 - boolean(m.events[x.event].Who == who) }
	slices.SortStableFunc(list, func(a, b moment) int { return cmp.Compare(own(a), own(b)) })
	for i := range list {
		if own(list[i]) == 0 {
			list[i].at = at
		}
	}
}

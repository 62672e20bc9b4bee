package diagram

import (
	"cmp"
	"slices"
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

// moments returns the beginnings of all events and the ends that are drawn, by time. At one time, ends come first.
func (m *maker) moments() []moment {
	last := m.events[0].At
	for _, e := range m.events {
		if e.Kind != lab.Fault && e.Kind != lab.Standing {
			last = slices.MaxFunc([]time.Time{last, e.At, e.Until}, time.Time.Compare)
		}
	}
	var list []moment
	for i, e := range m.events {
		if e.Kind == lab.Lease && !e.Until.IsZero() || len(e.Woken) > 0 {
			continue // drawn as a bar or as a chart alone
		}
		if m.endIsDrawn(e, last) {
			list = append(list, moment{e.Until, i, true})
		}
		list = append(list, moment{e.At, i, false})
	}
	slices.SortStableFunc(list, func(a, b moment) int {
		switch {
		case !a.at.Equal(b.at):
			return a.at.Compare(b.at)
		case a.end && !b.end:
			return -1
		case b.end && !a.end:
			return 1
		}
		return cmp.Compare(a.event, b.event)
	})
	return list
}

// endIsDrawn reports whether the end of an event is a step of its own. last is when the last event ended.
func (m *maker) endIsDrawn(e lab.CaseEvent, last time.Time) bool {
	if e.Until.IsZero() {
		return false
	}
	switch e.Kind {
	case lab.Paused:
		return !m.diedIn(e)
	case lab.Standing:
		return e.Until.After(e.At) && e.Until.Before(last)
	case lab.Fault:
		return e.Until.Before(last) && m.lasts(e)
	}
	return false
}

// diedIn reports whether the process of a paused request was killed during the pause, so that nothing went on.
func (m *maker) diedIn(pause lab.CaseEvent) bool {
	return slices.ContainsFunc(m.events, func(f lab.CaseEvent) bool {
		return f.Kind == lab.Fault && f.Point == lab.Killed && f.Lane == pause.Lane &&
			f.At.After(pause.At) && !f.At.After(pause.Until)
	})
}

// lasts reports whether a fault is drawn as an interval: it is long, or another event falls into it.
func (m *maker) lasts(e lab.CaseEvent) bool {
	return e.Until.Sub(e.At) >= shortFault || slices.ContainsFunc(m.events, func(o lab.CaseEvent) bool {
		return o.At.After(e.At) && o.At.Before(e.Until)
	})
}

// causes sorts reads and writes into the store's order. Both are recorded when their replies arrive, so their times may
// be in the wrong order. The versions give the right one: a read of a version comes after the write that made it, and
// before the first write that is based on it. The number of moves is bounded, because records may contradict each
// other.
func (m *maker) causes(list []moment) {
	for range len(list) * len(list) {
		effect, cause, found := m.inverted(list)
		if !found {
			return
		}
		m.bringForward(list[effect:cause+1], list[effect].at)
	}
}

// inverted finds a cause that comes after its effect.
func (m *maker) inverted(list []moment) (effect, cause int, found bool) {
	for cause := range list {
		for effect := range cause {
			if m.causedBy(list[effect], list[cause], list[:effect]) {
				return effect, cause, true
			}
		}
	}
	return 0, 0, false
}

// causedBy reports whether one moment was caused by another. before has the moments that precede both.
func (m *maker) causedBy(effect, cause moment, before []moment) bool {
	e, c := m.events[effect.event], m.events[cause.event]
	if effect.end || cause.end || c.Version == 0 || c.To != e.To || c.Who == e.Who {
		return false
	}
	switch {
	case c.Kind == lab.Read && e.Kind == lab.Write:
		return c.Version == e.Version
	case c.Kind == lab.Write && e.Kind == lab.Read:
		// If an update was lost, two writes are based on one version. The first of them made the next version.
		return c.Version+1 == e.Version && !slices.ContainsFunc(before, func(b moment) bool {
			o := m.events[b.event]
			return o.Kind == lab.Write && o.Version == c.Version
		})
	}
	return false
}

// bringForward moves the last moment of list, and the others of its customer, before the rest. They get the time at.
func (m *maker) bringForward(list []moment, at time.Time) {
	who := m.events[list[len(list)-1].event].Who
	var own, rest []moment
	for _, x := range list {
		if m.events[x.event].Who == who {
			x.at = at
			own = append(own, x)
		} else {
			rest = append(rest, x)
		}
	}
	copy(list, slices.Concat(own, rest))
}

// grants puts the end of a hold, as the server regarded it, before the grant to the next holder: the server grants a
// lock only when it is free. The end is noticed by polling, so it may be recorded after the grant.
func (m *maker) grants(list []moment) {
	for i, x := range list {
		hold := m.events[x.event]
		if !x.end || hold.Kind != lab.Standing {
			continue
		}
		next := slices.IndexFunc(list[:i], func(earlier moment) bool {
			g := m.events[earlier.event]
			return g.Kind == lab.Gets && g.To == hold.Lane && short(g.Who) != short(hold.Who) && g.At.After(hold.At)
		})
		if next >= 0 {
			x.at = list[next].at
			copy(list[next+1:i+1], list[next:i])
			list[next] = x
		}
	}
}

package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/stock/lab"
)

// crowd is how many customers of one process get a lane each; more share one.
const crowd = 8

// A lane is a row of the timeline: what happened to one customer in one process, or to a process or server itself.
type lane struct {
	name string
	who  string // empty: itself
}

// A story is the timeline of a cell, laid out.
type story struct {
	cell   lab.Cell
	lanes  []lane
	scale  *scale
	tops   []int               // of the lanes, as far as they are known
	guilty map[string]lab.Text // customers whose writes met, with the proof
}

func newStory(c lab.Cell) *story {
	c.Events = fold(c.Events)
	s := &story{cell: c, guilty: guilty(c)}
	many := make(map[string]map[string]bool)
	for _, e := range c.Events {
		if many[e.Lane] == nil {
			many[e.Lane] = make(map[string]bool)
		}
		many[e.Lane][e.Who] = true
	}
	var moments []time.Time
	worded := make(map[time.Time]bool)
	var names []string
	for _, e := range c.Events {
		if e.Kind == lab.Note && len(c.Events) <= dense {
			worded[e.At] = true
		}
		moments = append(moments, e.At)
		if !e.Until.IsZero() {
			moments = append(moments, e.Until)
		}
		if !slices.Contains(names, e.Lane) {
			names = append(names, e.Lane)
		}
		if l := laneOf(e, many); !slices.Contains(s.lanes, l) {
			s.lanes = append(s.lanes, l)
		}
	}
	slices.SortStableFunc(s.lanes, func(a, b lane) int {
		if a.name == b.name {
			return strings.Compare(a.who, b.who)
		}
		return (rank(a.name)*1000 + slices.Index(names, a.name)) - (rank(b.name)*1000 + slices.Index(names, b.name))
	})
	s.scale = newScale(moments, worded)
	return s
}

// fold makes one event of the same steps in a row: somebody who tries again and again.
func fold(events []lab.Event) []lab.Event {
	var list []lab.Event
	last, times := make(map[lane]int), make(map[int]int) // the event of each lane that came last, and how often
	for _, e := range events {
		l := lane{e.Lane, e.Who}
		i, any := last[l]
		if any && e.Kind == lab.Note && list[i].Kind == lab.Note && list[i].Text == e.Text {
			times[i]++
			continue
		}
		last[l] = len(list)
		list = append(list, e)
	}
	for i, n := range times {
		said := list[i].Said()
		list[i].Text, list[i].ZH = fmt.Sprintf("%s (%d times)", said.EN, n+1), fmt.Sprintf("%s（%d 次）", said.ZH, n+1)
	}
	return list
}

func laneOf(e lab.Event, many map[string]map[string]bool) lane {
	switch {
	case e.Who == "" || e.Kind == lab.Standing:
		return lane{e.Lane, ""}
	case len(many[e.Lane]) > crowd:
		return lane{e.Lane, ""}
	}
	return lane{e.Lane, e.Who}
}

// rank puts who acts above, and what is acted on below.
func rank(name string) int {
	return slices.Index([]string{"lock", "node", "wire", "redis", "zookeeper", "mysql", "store"}, strings.TrimRight(name, "- 0123456789"))
}

// row is the lane of an event.
func (s *story) row(e lab.Event) int {
	if e.Kind != lab.Standing && e.Who != "" {
		if i := slices.Index(s.lanes, lane{e.Lane, e.Who}); i >= 0 {
			return i
		}
	}
	return slices.Index(s.lanes, lane{e.Lane, ""})
}

// has reports whether something of that kind is drawn in a lane.
func (s *story) has(i int, kinds ...lab.Kind) bool {
	return slices.ContainsFunc(s.cell.Events, func(e lab.Event) bool { return s.row(e) == i && slices.Contains(kinds, e.Kind) })
}

// y is the top of a lane, or what is below the last.
func (s *story) y(lane int) int {
	for i := len(s.tops); i <= lane; i++ {
		y := top
		if i > 0 {
			y = s.tops[i-1] + barAt
			for _, kinds := range [][]lab.Kind{{lab.Lease, lab.Standing}, {lab.Paused}} {
				if s.has(i-1, kinds...) {
					y += barHeight + barGap
				}
			}
		}
		s.tops = append(s.tops, y)
	}
	return s.tops[lane]
}

// meetings are the times in which two customers held the lock, as both believed.
func (s *story) meetings() []lab.Event {
	var list []lab.Event
	for i, a := range s.cell.Events {
		for j, b := range s.cell.Events {
			if i == j || a.Kind != lab.Lease || b.Kind != lab.Lease || a.Who == b.Who {
				continue
			}
			from, to := later(a.At, b.At), a.Until
			if b.Until.Before(to) {
				to = b.Until
			}
			if from.Before(to) {
				list = append(list, lab.Event{
					At: from, Until: to, Lane: a.Lane, Kind: lab.Lease, Who: a.Who,
					Text: a.Who + " and " + b.Who + " both believed that they held the lock", ZH: a.Who + " 和 " + b.Who + " 都自认为持有锁",
				})
			}
		}
	}
	return list
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

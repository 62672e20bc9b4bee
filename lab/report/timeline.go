package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/lab"
)

// crowd is how many customers of one process get a lane each; more share one.
const crowd = 8

// A lane is a row of the timeline: what happened to one customer in one process, or to a process or server itself.
type lane struct {
	name string
	who  string // the customer; empty: the process or server itself
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

// fold joins equal steps in a row, such as repeated tries, into one event.
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
		again := phrases.Say("timeline.times", "text", said, "n", n+1)
		list[i].Text, list[i].ZH = again.EN, again.ZH
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

// rank puts clients above, and what they act on below.
func rank(name string) int {
	return slices.Index(
		[]string{"lock", "node", "wire", "redis", "zookeeper", "mysql", "store"},
		strings.TrimRight(name, "- 0123456789"),
	)
}

// row returns the lane of an event.
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
	return slices.ContainsFunc(
		s.cell.Events, func(e lab.Event) bool { return s.row(e) == i && slices.Contains(kinds, e.Kind) },
	)
}

// y returns the top of a lane, or the bottom of the last one.
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

// meetings returns the times in which two customers both believed that they held the lock.
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
				said := phrases.Say("timeline.both-held", "one", a.Who, "other", b.Who)
				list = append(list, lab.Event{
					At: from, Until: to, Lane: a.Lane, Kind: lab.Lease, Who: a.Who, Text: said.EN, ZH: said.ZH,
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

// guilty returns the customers whose orders read the same version, each with the proof: a collision certificate of the
// load test's judge.
func guilty(c lab.Cell) map[string]lab.Text {
	found := make(map[string]lab.Text)
	for _, e := range c.Evidence {
		if e.Kind != lab.Pair {
			continue
		}
		// The value is a structure in the process that ran the lab, and maps in one that reads a report.
		text, err := json.Marshal(e.Value)
		var pair struct {
			Orders []struct {
				RequestID string `json:"request_id"`
			} `json:"orders"`
		}
		if err != nil || json.Unmarshal(text, &pair) != nil {
			continue
		}
		for _, order := range pair.Orders {
			if i := strings.LastIndexByte(order.RequestID, '.'); i >= 0 {
				found[order.RequestID[i+1:]] = e.Said()
			}
		}
	}
	return found
}

// A scale puts moments on an axis. What matters in a scenario happens in bursts of milliseconds, seconds apart, so
// the axis is stretched where much happens: between two moments there is room for a marker at least, and more by
// the logarithm of the time between. The order is always visible; times are written.
type scale struct {
	moments []time.Time // sorted, each once
	at      []float64   // where they stand, from 0 to 1
	weight  float64     // the whole length, in markers
}

// newScale returns a scale for moments; after those in worded there is room for a word.
func newScale(moments []time.Time, worded map[time.Time]bool) *scale {
	slices.SortFunc(moments, time.Time.Compare)
	moments = slices.CompactFunc(moments, time.Time.Equal)
	s := &scale{moments: moments, at: make([]float64, len(moments))}
	for i := 1; i < len(moments); i++ {
		gap := float64(moments[i].Sub(moments[i-1])) / float64(time.Millisecond)
		s.at[i] = s.at[i-1] + 0.7 + 0.9*math.Log10(1+gap)
		if worded[moments[i-1]] {
			s.at[i] += 3
		}
	}
	if n := len(moments); n > 0 {
		s.weight = s.at[n-1]
	}
	for i := range s.at {
		s.at[i] /= max(s.weight, 1)
	}
	return s
}

// x returns the place of a moment, in percent. Some room is left on both sides for markers.
func (s *scale) x(t time.Time) float64 {
	i, found := slices.BinarySearchFunc(s.moments, t, time.Time.Compare)
	if !found {
		i = max(i-1, 0)
	}
	return math.Round((2+91*s.at[i])*100) / 100
}

// A tick is a moment with its time written.
type tick struct {
	x    float64
	text string
}

// ticks returns the moments that can be labelled without touching each other on an axis width pixels wide.
func (s *scale) ticks(width float64) []tick {
	var list []tick
	for _, t := range s.moments {
		if x := s.x(t); len(list) == 0 || (x-list[len(list)-1].x)/100*width >= 64 {
			before := ""
			if len(list) > 0 {
				before = list[len(list)-1].text
			}
			list = append(list, tick{x, unlike(before, t.Sub(s.moments[0]))})
		}
	}
	return list
}

// unlike formats the time since the beginning with as many digits as it takes to differ from the label before.
func unlike(before string, d time.Duration) string {
	text, ms := since(d), float64(d)/float64(time.Millisecond)
	for digits := 0; text == before && digits <= 6; digits++ {
		text = strconv.FormatFloat(ms, 'f', digits, 64) + " ms"
	}
	return text
}

// since formats the time since the beginning.
func since(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms < 9.95:
		return fmt.Sprintf("%.1f ms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0f ms", ms)
	default:
		return fmt.Sprintf("%.2f s", ms/1000)
	}
}

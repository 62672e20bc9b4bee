package explore

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A Violation is a broken property, and the shortest path to it.
type Violation struct {
	Lanes  []string
	Events []Event
	Calm   int // index of the first event of the calm run; -1: the path has none
	Why    error
}

// An Event is a step in a timeline.
type Event struct {
	Notes []Note
	Takes time.Duration
}

// String draws the steps as a timeline: time goes down, every lane has a column, and each step has a line. A line with
// a later time and no entry means that nothing happens in between: a client is paused, or a message is delayed.
func (v *Violation) String() string {
	width := make([]int, len(v.Lanes))
	for i, name := range v.Lanes {
		width[i] = utf8.RuneCountInString(name)
	}
	for _, e := range v.Events {
		for _, note := range e.Notes {
			width[note.Lane] = max(width[note.Lane], utf8.RuneCountInString(note.Text))
		}
	}
	var b strings.Builder
	line := func(time, between string, cells []string) {
		text := fmt.Sprintf("%8s", time)
		for i, cell := range cells {
			text += between + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
		}
		b.WriteString(strings.TrimRight(text, " ") + "\n")
	}
	line("time", " | ", v.Lanes)
	var now time.Duration
	for i, e := range v.Events {
		if i == v.Calm {
			b.WriteString("         from here on nothing goes wrong any more\n")
		}
		cells := make([]string, len(v.Lanes))
		for _, note := range e.Notes {
			cells[note.Lane] = note.Text
		}
		now += e.Takes
		last := i+1 == len(v.Events) || i+1 == v.Calm
		if len(e.Notes) == 0 && !last && len(v.Events[i+1].Notes) == 0 {
			continue // one line for all the time that passes
		}
		line(now.String(), " | ", cells)
	}
	fmt.Fprintf(&b, "         => %v\n", v.Why)
	return b.String()
}

package report

import (
	"fmt"
	"html"
	"slices"
	"strings"

	"example.com/stock/lab"
)

// Pixels of the timeline.
const (
	top        = 20 // for the names of faults
	markAt     = 17 // the middle of a lane's markers
	barAt      = 27 // the top of a lane's bars, or the height of a lane without bars
	barHeight  = 12
	barGap     = 3
	axisHeight = 22
	markWidth  = 15.0
	dense      = 70 // pictures with more events have no numbers at the markers
)

// timeline draws a cell as two pictures: the names of the lanes, and what happened. Times are drawn at percentages of
// the width, so that the browser stretches the picture; below least pixels the reader scrolls.
func timeline(c lab.Cell) (names, picture string, least int) {
	s := newStory(c)
	bottom := s.y(len(s.lanes))
	height := bottom + axisHeight
	least = int(min(max(s.scale.weight*markWidth/0.7*0.62, 240), 2400))
	var n, b strings.Builder
	fmt.Fprintf(&n, `<svg class="names" width="84" height="%d" aria-hidden="true">`, height)
	class := "story"
	if len(s.cell.Events) > dense {
		class += " dense"
	}
	fmt.Fprintf(&b, `<svg class="%s" width="100%%" height="%d" role="img" aria-label="%s">`, class, height,
		html.EscapeString(s.caption()))
	for i, l := range s.lanes {
		y := s.y(i)
		if i == 0 || s.lanes[i-1].name != l.name {
			fmt.Fprintf(&b, `<line class="rule" x1="0" x2="100%%" y1="%d" y2="%d"/>`, y, y)
			fmt.Fprintf(&n,
				`<line class="rule" x1="0" x2="100%%" y1="%d" y2="%d"/><text class="group" x="0" y="%d">%s</text>`, y,
				y, y+14, html.EscapeString(l.name))
		}
		fmt.Fprintf(&n, `<text class="lane" x="78" y="%d">%s</text>`, y+max(s.y(i+1)-y-7, 24),
			html.EscapeString(short(l.who)))
	}
	n.WriteString("</svg>")
	for _, t := range s.scale.ticks(float64(least)) {
		fmt.Fprintf(
			&b,
			`<line class="tick" x1="%[1]g%%" x2="%[1]g%%" y1="%[2]d" y2="%[3]d"/>`+
				`<text class="ms%[6]s" x="%[1]g%%" y="%[4]d">%[5]s</text>`,
			t.x, top, bottom, bottom+15, t.text, side(t.x),
		)
	}
	s.draw(&b, bottom)
	b.WriteString("</svg>")
	return n.String(), b.String(), least
}

// side keeps the first and the last time inside the picture.
func side(x float64) string {
	switch {
	case x < 5:
		return " left"
	case x > 94:
		return " right"
	}
	return ""
}

func short(who string) string {
	if r := []rune(who); len(r) > 9 {
		return string(r[:8]) + "…"
	}
	return who
}

// draw draws the faults first, behind everything, then the intervals, then the moments.
func (s *story) draw(b *strings.Builder, bottom int) {
	for n, e := range s.cell.Events {
		if e.Kind == lab.Fault {
			s.fault(b, n, e, bottom)
		}
	}
	for n, e := range s.cell.Events {
		if e.Kind != lab.Fault && !e.Until.IsZero() {
			s.bar(b, n, e)
		}
	}
	for _, e := range s.meetings() {
		y := s.y(s.row(e)) + barAt
		from, to := s.scale.x(e.At), s.scale.x(e.Until)
		fmt.Fprintf(b, `<rect class="overlap" x="%g%%" width="%.2f%%" y="%d" height="%d"><title>%s</title></rect>`,
			from, to-from, y+1, barHeight-2, lines(e.Said()))
	}
	s.between(b)
	taken := make(map[[2]int]int) // lane and place
	for n, e := range s.cell.Events {
		if e.Kind != lab.Fault && e.Until.IsZero() {
			place := [2]int{s.row(e), int(s.scale.x(e.At) * 100)}
			s.mark(b, n, e, taken[place])
			if e.Kind == lab.Note {
				s.word(b, e)
			}
			taken[place]++
		}
	}
}

// fault shades the time of a fault across all lanes, and darker in its own.
func (s *story) fault(b *strings.Builder, n int, e lab.Event, bottom int) {
	from, i := s.scale.x(e.At), s.row(e)
	y := s.y(i)
	fmt.Fprintf(b, `<g data-n="%d"><title>%s</title>`, n+1, s.title(n, e))
	if to := s.scale.x(e.Until); !e.Until.IsZero() && to > from && !s.within(e) {
		fmt.Fprintf(
			b,
			`<rect class="fault" x="%g%%" width="%.2f%%" y="%d" height="%d"/>`+
				`<rect class="faulty" x="%g%%" width="%.2f%%" y="%d" height="%d"/>`,
			from, to-from, top, bottom-top, from, to-from, y, s.y(i+1)-y,
		)
		fmt.Fprintf(b,
			`<svg x="%g%%" width="%.2f%%" y="0" height="%d"><text class="faultname" x="1" y="14">%d %s</text></svg>`,
			from, to-from, top, n+1, spoken("tspan", e.Said()))
	} else {
		fmt.Fprintf(
			b,
			`<line class="faultline" x1="%g%%" x2="%g%%" y1="%d" y2="%d"/><svg class="over" x="%g%%" y="%d">`+
				`<path class="m-fault" d="M0,-7L7,6L-7,6Z"/><text class="n" y="-9">%d</text></svg>`,
			from, from, top, bottom, from, y+markAt, n+1,
		)
	}
	b.WriteString("</g>")
}

// within reports whether a longer fault of the same lane covers e: the moment of a kill is part of the time of
// being dead.
func (s *story) within(e lab.Event) bool {
	return slices.ContainsFunc(s.cell.Events, func(f lab.Event) bool {
		return f.Kind == lab.Fault && f.Lane == e.Lane && !f.At.After(e.At) && f.Until.After(e.Until)
	})
}

// bar draws an interval: a lease as the holder or the server had it, or a stop at a pause point below the lease.
func (s *story) bar(b *strings.Builder, n int, e lab.Event) {
	from, to := s.scale.x(e.At), s.scale.x(e.Until)
	i, kind := s.row(e), html.EscapeString(string(e.Kind))
	y, text := s.y(i)+barAt, lab.Text{EN: e.Who, ZH: e.Who}
	switch e.Kind {
	case lab.Paused:
		if s.has(i, lab.Lease) {
			y += barHeight + 1
		}
		if _, point, ok := strings.Cut(e.Text, " at "); ok {
			text = lab.Text{EN: point, ZH: point}
		}
	case lab.Lease:
		text = phrases.Say("timeline.holds", "who", e.Who)
	}
	fmt.Fprintf(
		b,
		`<svg data-n="%d" x="%g%%" width="%.2f%%" y="%d" height="%d"><title>%s</title>`+
			`<rect class="%s" width="100%%" height="100%%"/>`,
		n+1, from, max(to-from, 0.3), y, barHeight, s.title(n, e), kind,
	)
	fmt.Fprintf(b, `<text class="in in-%s" x="4" y="9.5">%d %s</text></svg>`, kind, n+1, spoken("tspan", text))
}

// mark draws an event at a moment. nth counts earlier events at the same place.
func (s *story) mark(b *strings.Builder, n int, e lab.Event, nth int) {
	kind := string(e.Kind)
	if s.offends(e) {
		kind = "offence"
	}
	fmt.Fprintf(
		b,
		`<svg class="over" data-n="%d" x="%g%%" y="%d"><g transform="translate(%d)">`+
			`<title>%s</title>%s<text class="n" y="-7">%d</text></g></svg>`,
		n+1, s.scale.x(e.At), s.y(s.row(e))+markAt, nth*13, s.title(n, e), glyph(kind), n+1,
	)
}

// word writes the text of an event beside its marker, as far as there is room before the next event of its lane.
func (s *story) word(b *strings.Builder, e lab.Event) {
	from, to := s.scale.x(e.At), 100.0
	for _, next := range s.cell.Events {
		if x := s.scale.x(next.At); s.row(next) == s.row(e) && x > from {
			to = min(to, x)
		}
	}
	if to-from > 1.5 && len(s.cell.Events) <= dense {
		fmt.Fprintf(b,
			`<svg x="%g%%" width="%.2f%%" y="%d" height="14"><text class="word" x="7" y="10">%s</text></svg>`, from,
			to-from-0.8, s.y(s.row(e))+markAt-7, spoken("tspan", e.Said()))
	}
}

// between joins the writes that met.
func (s *story) between(b *strings.Builder) {
	var last *lab.Event
	for _, e := range s.cell.Events {
		if !s.offends(e) {
			continue
		}
		if last != nil {
			fmt.Fprintf(b, `<line class="between" x1="%g%%" y1="%d" x2="%g%%" y2="%d"/>`,
				s.scale.x(last.At), s.y(s.row(*last))+markAt, s.scale.x(e.At), s.y(s.row(e))+markAt)
		}
		last = &e
	}
}

// offends reports whether e is a write of a pair that read the same version.
func (s *story) offends(e lab.Event) bool { return e.Kind == lab.Write && s.guilty[e.Who].EN != "" }

// glyph returns the marker of a kind. Each has its own shape, for readers who see no colours.
func glyph(kind string) string {
	shape := map[string]string{
		"sent":     `<path d="M-4,-5L5,0L-4,5Z"/>`,
		"answered": `<path d="M4,-5L-5,0L4,5Z"/>`,
		"write":    `<rect x="-4.5" y="-4.5" width="9" height="9"/>`,
		"offence":  `<rect x="-6" y="-6" width="12" height="12"/><path class="cross" d="M-3,-3L3,3M3,-3L-3,3"/>`,
		"refused":  `<circle r="5"/><path class="cross" d="M-3.5,3.5L3.5,-3.5"/>`,
	}[kind]
	if shape == "" {
		kind, shape = "note", `<circle r="2.6"/>`
	}
	return `<g class="m-` + kind + `">` + shape + `</g>`
}

// lines returns both languages of a text on two lines, for a title: it has no elements among which a page could choose.
func lines(t lab.Text) string {
	if t.EN == t.ZH {
		return html.EscapeString(t.EN)
	}
	return html.EscapeString(t.EN + "\n" + t.ZH)
}

// title returns the text that is shown when the reader points at an event.
func (s *story) title(n int, e lab.Event) string {
	text := fmt.Sprintf("%d. %s\n%s, %s", n+1, lines(e.Said()), html.EscapeString(e.Lane),
		since(e.At.Sub(s.scale.moments[0])))
	if !e.Until.IsZero() {
		text += " + " + since(e.Until.Sub(e.At))
	}
	if s.offends(e) {
		text += "\nTHE SAME VERSION: " + lines(s.guilty[e.Who])
	}
	return text
}

// caption describes the picture in a sentence, for readers who do not see it.
func (s *story) caption() string {
	text := fmt.Sprintf("Timeline of %d events in %d lanes", len(s.cell.Events), len(s.lanes))
	for _, e := range s.cell.Evidence {
		if e.Kind == lab.Pair {
			return text + "; " + e.Text
		}
	}
	return text
}

package diagram

import (
	_ "embed" // Script and Style
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"

	"example.com/stock/lab"
)

// Script is the ES module that steps through the figures. Its only export is steps(figure, options). Without it a
// figure shows all steps.
//
//go:embed diagram.js
var Script string

// Style is the CSS of the figures. A page chooses a language by hiding the elements with the other lang.
//
//go:embed diagram.css
var Style string

// Pixels of the picture.
const (
	axisWidth = 82
	laneWidth = 132
	headAt    = 44 // the bottom of the names of the lanes
	rowHeight = 34
	barWidth  = 10
	leaseWide = 44 // a whole lease
)

// Figure returns the diagram as one <figure class="steps">: the picture, and a sentence for each step in both
// languages. It needs Style, and Script for stepping. The elements of step n have data-step="n", from 1. For a case
// without steps it returns the charts. lang, en or zh, is the language of the description for screen readers.
func (d Diagram) Figure(lang string) template.HTML {
	if len(d.Steps) == 0 {
		var b strings.Builder
		for _, c := range d.Charts {
			chart(&b, c)
		}
		return template.HTML(b.String())
	}
	p := &picture{Diagram: d}
	p.layOut()
	var b strings.Builder
	fmt.Fprintf(&b, `<figure class="steps" data-steps="%d" tabindex="0"><div class="steps-bar" hidden="">`+
		`<button type="button" class="steps-back" disabled="">‹ %s</button>`+
		`<button type="button" class="steps-next">%s ›</button><span class="steps-at"></span></div>`,
		len(d.Steps), Spoken("span", say("page.back")), Spoken("span", say("page.next")))
	fmt.Fprintf(&b, `<p class="steps-say" aria-live="polite" hidden="">%s</p>`,
		Spoken("span", say("page.start", "of", len(d.Steps))))
	// The heads of the lanes are a picture of their own, so that they stay in view while the other one scrolls.
	fmt.Fprintf(&b, `<div class="steps-scroll"><svg class="heads" width="%[1]d" viewBox="0 0 %[1]d %[2]d" `+
		`style="min-width:%[3]dpx" aria-hidden="true">`, p.width, headAt, p.width*4/5)
	p.heads(&b)
	fmt.Fprintf(&b, `</svg><svg width="%[1]d" viewBox="0 %[5]d %[1]d %[2]d" style="min-width:%[4]dpx" `+
		`role="img" aria-label="%[3]s">`, p.width, p.height-headAt, html.EscapeString(d.caption().In(lang)),
		p.width*4/5, headAt)
	p.draw(&b)
	b.WriteString(`</svg></div>`)
	for _, c := range d.Charts {
		chart(&b, c)
	}
	d.legend(&b)
	b.WriteString(`<ol class="steps-list">`)
	for i, s := range d.Steps {
		class := ""
		if s.Harm {
			class = ` class="harm"`
		}
		fmt.Fprintf(&b, `<li data-step="%d"%s>%s</li>`, i+1, class, Spoken("span", s.Says))
	}
	b.WriteString(`</ol></figure>`)
	return template.HTML(b.String())
}

// caption describes the picture in a sentence, for screen readers.
func (d Diagram) caption() lab.Text {
	var en, zh []string
	for _, l := range d.Lanes {
		en, zh = append(en, l.Says.EN), append(zh, l.Says.ZH)
	}
	lanes := lab.Text{EN: strings.Join(en, ", "), ZH: strings.Join(zh, "、")}
	return say("page.picture", "case", d.Title, "steps", len(d.Steps), "lanes", lanes)
}

type picture struct {
	Diagram
	rows          []int // the middle of each step
	width, height int
}

func (p *picture) layOut() {
	y := headAt + 8
	for _, s := range p.Steps {
		if s.Break > 0 {
			y += 18
		}
		y += rowHeight
		p.rows = append(p.rows, y-10)
	}
	p.width, p.height = axisWidth+laneWidth*len(p.Lanes)+60, y+12
}

func (p *picture) x(lane int) int { return axisWidth + laneWidth*lane + laneWidth/2 }

// draw draws from back to front: faults, lanes, bars, steps.
func (p *picture) draw(b *strings.Builder) {
	for _, band := range p.Bands {
		p.band(b, band)
	}
	for i := range p.Lanes {
		x := p.x(i)
		fmt.Fprintf(b, `<line class="life" x1="%d" x2="%d" y1="%d" y2="%d"/>`, x, x, headAt, p.height)
	}
	for _, bar := range p.Bars {
		p.bar(b, bar)
	}
	for _, o := range p.Overlaps {
		p.overlap(b, o)
	}
	last := time.Duration(-1)
	var stock *int64
	for i, s := range p.Steps {
		fmt.Fprintf(b, `<g data-step="%d"><title>%s</title>`, i+1, both(s.Says))
		y := p.rows[i]
		if s.Break > 0 {
			fmt.Fprintf(b, `<path class="break" d="M%[1]d,%[2]dl5,-4l5,8l5,-8l5,4"/>`+
				`<text class="gap" x="%[3]d" y="%[4]d">%[5]s</text>`, axisWidth-34, y-28, axisWidth-8, y-24,
				Spoken("tspan", say("page.later", "for", Brief(s.Break))))
		}
		if i == 0 || s.At-last >= time.Millisecond/10 {
			fmt.Fprintf(b, `<text class="at" x="%d" y="%d">%s</text>`, axisWidth-10, y+4, Brief(s.At))
			last = s.At
		}
		p.step(b, s, y)
		changed := s.Stock != nil && (stock == nil || *stock != *s.Stock || s.Kind == lab.Write)
		if changed && s.From != s.To { // a note in the store's lane says the number itself, in the same place
			p.stock(b, s, y)
		}
		stock = s.Stock
		p.left(b, i, y)
		b.WriteString("</g>")
	}
}

// heads draws the names of the lanes.
func (p *picture) heads(b *strings.Builder) {
	for i, l := range p.Lanes {
		x := p.x(i)
		fmt.Fprintf(b, `<rect class="head" x="%d" y="12" width="%d" height="26" rx="4"/>`+
			`<text class="name" x="%d" y="29">%s</text>`, x-laneWidth/2+8, laneWidth-16, x, Spoken("tspan", l.Says))
	}
}

// both returns both languages of a text on two lines, for a title.
func both(t lab.Text) string {
	if t.EN == t.ZH {
		return html.EscapeString(t.EN)
	}
	return html.EscapeString(t.EN + "\n" + t.ZH)
}

// step draws an arrow, or a mark in a lane.
func (p *picture) step(b *strings.Builder, s Step, y int) {
	from, to := p.x(s.From), p.x(s.To)
	class := "k-" + html.EscapeString(string(s.Kind))
	if s.Harm {
		class += " harm"
	}
	if s.From == s.To {
		fmt.Fprintf(b, `<g class="%s"><circle class="dot" cx="%d" cy="%d" r="4"/>`, class, from, y)
		fmt.Fprintf(b, `<text class="note" x="%d" y="%d">%s</text></g>`, from+9, y+4, Spoken("tspan", s.Label))
		return
	}
	sign := 1
	if to < from {
		sign = -1
	}
	end := to - 5*sign
	fmt.Fprintf(b, `<g class="%s"><line class="arrow" x1="%d" x2="%d" y1="%d" y2="%d"/>`, class, from, end, y, y)
	if s.Lost {
		x := to - 14*sign
		fmt.Fprintf(b, `<path class="cross" d="M%d,%dl10,10m0,-10l-10,10"/>`, x-5, y-5)
	} else {
		fmt.Fprintf(b, `<path class="tip" d="M%d,%dl%d,-5v10Z"/>`, to-1*sign, y, -9*sign)
	}
	fmt.Fprintf(b, `<text class="said" x="%d" y="%d">%s</text>`, (from+to)/2, y-5, Spoken("tspan", s.Label))
	if s.Harm {
		fmt.Fprintf(b, `<text class="said harm" x="%d" y="%d">⚠ %s</text>`, (from+to)/2, y+14,
			Spoken("tspan", say("page.harm")))
	}
	b.WriteString(`</g>`)
}

// stock writes the stock to the right of the store's lane.
func (p *picture) stock(b *strings.Builder, s Step, y int) {
	at := s.To
	if p.Lanes[at].Role < Server {
		at = s.From
	}
	fmt.Fprintf(b, `<g class="stock"><rect x="%d" y="%d" width="34" height="20" rx="3"/>`+
		`<text x="%d" y="%d">%d</text></g>`, p.x(at)+10, y-10, p.x(at)+27, y+5, *s.Stock)
}

// left writes the rest of each lease at a step.
func (p *picture) left(b *strings.Builder, i, y int) {
	for _, bar := range p.Bars {
		if bar.Left == nil || i < bar.From || i > bar.To {
			continue
		}
		x := p.x(bar.Lane) + 8 + leaseWide + 4
		fmt.Fprintf(b, `<text class="left" x="%d" y="%d">%s %s</text>`, x, y+14, html.EscapeString(short(bar.Who)),
			Brief(bar.Left[i-bar.From]))
	}
}

// short returns the customer of "A on app-1".
func short(who string) string {
	name, _, _ := strings.Cut(who, " on ")
	return name
}

// bar draws an interval. A lease whose end is known gets narrower as it runs down.
func (p *picture) bar(b *strings.Builder, bar Bar) {
	top, bottom := p.rows[bar.From], p.rows[bar.To]
	if bar.To == bar.From {
		bottom = top + rowHeight/2
	}
	x := p.x(bar.Lane)
	says := say("page.bar", "who", bar.Who, "what", say("marks."+string(bar.Kind)), "at", Brief(bar.At), "for",
		Brief(bar.For))
	fmt.Fprintf(b, `<g class="bar b-%s" data-step="%d"><title>%s</title>`, html.EscapeString(string(bar.Kind)),
		bar.From+1, both(says))
	if bar.Left == nil {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d"/>`, p.edge(bar), top, barWidth, bottom-top)
	} else {
		at := x + 4
		var edge strings.Builder
		fmt.Fprintf(&edge, "M%d,%d", at, top)
		for i, left := range bar.Left {
			wide := float64(leaseWide) * float64(left) / float64(max(bar.Full, 1))
			y := p.rows[bar.From+i]
			if i > 0 && left > bar.Left[i-1] { // renewed: the bar is wide again just above
				fmt.Fprintf(&edge, "L%.1f,%d", float64(at), y-rowHeight/2)
			}
			fmt.Fprintf(&edge, "L%.1f,%d", float64(at)+wide, y)
		}
		fmt.Fprintf(&edge, "L%d,%dZ", at, bottom)
		fmt.Fprintf(b, `<path d="%s"/>`, edge.String())
	}
	b.WriteString("</g>")
}

// edge returns the left edge of a bar.
func (p *picture) edge(bar Bar) int { return p.x(bar.Lane) - barWidth/2 + bar.Slot*(barWidth+2) }

// overlap marks two holds that overlap.
func (p *picture) overlap(b *strings.Builder, o Overlap) {
	top, tall := p.rows[o.From], max(p.rows[o.To]-p.rows[o.From], rowHeight/2)
	fmt.Fprintf(b, `<g class="bar b-overlap" data-step="%d"><title>%s</title>`, o.From+1, both(o.Says))
	for _, i := range o.Bars {
		fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d"/>`, p.edge(p.Bars[i]), top, barWidth, tall)
	}
	b.WriteString("</g>")
}

// legend explains the marks that occur in the picture.
func (d Diagram) legend(b *strings.Builder) {
	occurs := map[lab.Kind]bool{"overlap": len(d.Overlaps) > 0, lab.Fault: len(d.Bands) > 0}
	for _, bar := range d.Bars {
		occurs[bar.Kind] = true
	}
	b.WriteString(`<ul class="steps-legend">`)
	for _, kind := range []lab.Kind{lab.Lease, lab.Standing, "overlap", lab.Paused, lab.Thinks, lab.Fault} {
		if occurs[kind] {
			fmt.Fprintf(b, `<li><svg width="26" height="14" aria-hidden="true"><g class="bar b-%s"><rect x="1" y="1" `+
				`width="24" height="12"/></g></svg>%s</li>`, kind, Spoken("span", say("marks."+string(kind))))
		}
	}
	b.WriteString(`</ul>`)
}

// band shades a fault, its own lane more than the others.
func (p *picture) band(b *strings.Builder, band Band) {
	top, bottom := p.rows[band.From]-rowHeight/2, p.rows[band.To]+rowHeight/2
	fmt.Fprintf(b, `<g class="band" data-step="%d"><title>%s</title>`+
		`<rect class="all" x="%d" y="%d" width="%d" height="%d"/>`+
		`<rect class="own" x="%d" y="%d" width="%d" height="%d"/></g>`,
		band.From+1, both(band.Says), axisWidth, top, p.width-axisWidth, bottom-top,
		p.x(band.Lane)-laneWidth/2+6, top, laneWidth-12, bottom-top)
}

// chart draws numbers as columns.
func chart(b *strings.Builder, c Chart) {
	most := 1
	for _, n := range c.Values {
		most = max(most, n)
	}
	const height, wide = 90, 6
	fmt.Fprintf(b, `<figure class="steps-chart"><svg width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" `+
		`role="img" aria-label="%[3]s">`, 40+wide*len(c.Values), height+20, both(c.Says))
	fmt.Fprintf(b, `<text class="at" x="34" y="14">%d</text><text class="at" x="34" y="%d">0</text>`, most, height+8)
	for i, n := range c.Values {
		tall := float64(height) * float64(n) / float64(most)
		fmt.Fprintf(b, `<rect x="%d" y="%.1f" width="%d" height="%.1f"><title>%d: %d</title></rect>`, 38+wide*i,
			8+height-tall, wide-1, tall, i+1, n)
	}
	fmt.Fprintf(b, `</svg><figcaption>%s</figcaption></figure>`, Spoken("span", c.Says))
}

package report

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"strings"
)

// places is the number of places along the time axis that can be distinguished.
const places = 500

// The data of a chart are drawn in a frame of this width, which the browser stretches to that of the page.
const frameWidth = 1000

// A frame holds the axes of a chart, which several charts may share.
type frame struct{ end, least, most float64 }

func newFrame() frame { return frame{least: math.Inf(1), most: math.Inf(-1)} }

// hold makes room for lines.
func (f *frame) hold(lines ...[]moment) {
	for _, line := range lines {
		for _, m := range line {
			f.end, f.least, f.most = max(f.end, m.ms), min(f.least, m.units), max(f.most, m.units)
		}
	}
}

// A chart shows figures over the time of a run. Places along the time axis are percentages, as in the picture of the
// lanes, so that the browser stretches lines but no text.
type chart struct {
	frame
	unit     string // of the Y axis
	caption  string // for readers who cannot see it
	height   int
	layers   []layer
	commands []float64 // starts of the commands of the run, in milliseconds
	hints    []hint
}

// A layer is a line that keeps its height until the next point, the area between two of them, or dots. The style sheet
// has the looks of each.
type layer struct {
	look  string // its class
	name  string // in the legend
	line  []moment
	below []moment // the other side of an area
	dots  bool
}

// A hint is a text for a range of the time axis. The page shows it under the pointer.
type hint struct {
	from, to float64 // in milliseconds
	text     string
}

func (c *chart) addLine(look, name string, line []moment) {
	c.layers = append(c.layers, layer{look: look, name: name, line: line})
}

// draw returns the chart as elements for a page: the legend, and beside each other the Y axis and the data.
func (c *chart) draw(v voice) template.HTML {
	if c.most <= c.least {
		c.most = c.least + 1
	}
	c.most += (c.most - c.least) * 0.04
	var axis, data, lines strings.Builder
	for _, tick := range ticks(c.least, c.most, 5) {
		fmt.Fprintf(&axis, `<text x="50" y="%.1f">%s</text>`, c.y(tick)+4, thousands(int64(math.Round(tick))))
		fmt.Fprintf(&data, `<line class="tick" x2="100%%" y1="%.1f" y2="%.1[1]f"/>`, c.y(tick))
	}
	for _, tick := range ticks(0, c.end, 6) {
		fmt.Fprintf(&data, `<text class="ms" x="%s" y="%d">%s</text>`, c.x(tick), c.height+15, axisLabel(tick, c.end))
	}
	for i := range c.layers {
		c.layer(&data, &lines, &c.layers[i])
	}
	if c.least < 0 {
		fmt.Fprintf(&data, `<line class="zero" x2="100%%" y1="%.1f" y2="%.1[1]f"/>`, c.y(0))
	}
	for _, ms := range c.commands {
		fmt.Fprintf(&data, `<line class="command" x1="%s" x2="%[1]s" y2="%d"/>`, c.x(ms), c.height)
	}
	fmt.Fprintf(&data, `<svg width="100%%" height="%d" viewBox="0 0 %d %[1]d" preserveAspectRatio="none">%[3]s</svg>`,
		c.height, frameWidth, lines.String())
	for _, h := range c.hints {
		fmt.Fprintf(&data, `<rect class="hint" x="%s" width="%.2f%%" height="%d"><title>%s</title></rect>`, c.x(h.from),
			100*(h.to-h.from)/c.end, c.height, html.EscapeString(h.text))
	}
	const label = `<svg class="values" height="%d" aria-hidden="true">%s</svg>`
	const picture = `<svg class="chart" width="100%%" height="%d" role="img" aria-label="%s">%s</svg>`
	height := c.height + axisHeight
	return template.HTML(c.legend(v) + `<div class="plot">` + fmt.Sprintf(label, height, axis.String()) +
		fmt.Sprintf(picture, height, html.EscapeString(c.caption), data.String()) + `</div>`)
}

// layer draws lines and areas into the stretched frame, and dots beside it, which keep their form.
func (c *chart) layer(data, lines *strings.Builder, l *layer) {
	switch {
	case l.dots:
		for _, m := range l.line {
			fmt.Fprintf(data, `<circle class="%s" cx="%s" cy="%.1f" r="2"/>`, l.look, c.x(m.ms), c.y(m.units))
		}
	case l.below != nil:
		fmt.Fprintf(lines, `<path class="%s" d="%s%sZ"/>`, l.look, c.stairs(l.line), c.stairsBack(l.below))
	default:
		fmt.Fprintf(lines, `<path class="line %s" d="%s"/>`, l.look, c.stairs(l.line))
	}
}

// legend explains the layers in the order in which they lie on each other.
func (c *chart) legend(v voice) string {
	var b strings.Builder
	entry := func(sample, look, name string) {
		fmt.Fprintf(&b, `<li><svg width="26" height="11">`+sample+`</svg>%s</li>`, look, html.EscapeString(name))
	}
	const line = `<line class="line %s" x2="26" y1="5.5" y2="5.5"/>`
	fmt.Fprintf(&b, `<ul class="legend"><li class="soft">%s</li>`, html.EscapeString(c.unit))
	for _, l := range c.layers {
		switch {
		case l.dots:
			entry(`<circle class="%s" cx="13" cy="5.5" r="3"/>`, l.look, l.name)
		case l.below != nil:
			entry(`<rect class="%s" width="26" height="11"/>`, l.look, l.name)
		default:
			entry(line, l.look, l.name)
		}
	}
	if c.least < 0 {
		entry(line, "zero", v.say("chart.zero"))
	}
	if len(c.commands) > 0 {
		entry(line, "command", v.say("chart.command"))
	}
	b.WriteString("</ul>")
	return b.String()
}

func (c *chart) x(ms float64) string { return fmt.Sprintf("%.3f%%", 100*ms/max(c.end, 1e-9)) }

func (c *chart) y(units float64) float64 {
	return float64(c.height) * (c.most - units) / (c.most - c.least)
}

// stairs returns the path along a line in the frame, from left to right.
func (c *chart) stairs(line []moment) string {
	var b strings.Builder
	for i, m := range line {
		if i == 0 {
			fmt.Fprintf(&b, "M%.1f,%.1f", c.inFrame(m.ms), c.y(m.units))
			continue
		}
		fmt.Fprintf(&b, "H%.1fV%.1f", c.inFrame(m.ms), c.y(m.units))
	}
	return b.String()
}

// stairsBack returns the path along a line from its end to its start.
func (c *chart) stairsBack(line []moment) string {
	var b strings.Builder
	for i := len(line) - 1; i >= 0; i-- {
		fmt.Fprintf(&b, "V%.1fH%.1f", c.y(line[i].units), c.inFrame(line[i].ms))
	}
	return b.String()
}

func (c *chart) inFrame(ms float64) float64 { return frameWidth * ms / max(c.end, 1e-9) }

// stockChart draws the stock over time as read, as written and as true, and fills the gap between the last two. The
// true stock must have a point.
func stockChart(v voice, c *course, axes frame) template.HTML {
	p := &chart{
		frame: axes, unit: v.say("chart.units"), caption: v.say("caption.stock", "sku", c.sku), height: 240,
		commands: c.commands, hints: c.hints(v),
	}
	truth, written := thin(c.truth), thin(c.written)
	if len(written) > 0 && c.gaps() {
		p.layers = append(p.layers, layer{look: "gap", name: v.say("chart.gap"), line: written, below: truth})
	}
	p.addLine("truth", v.say("chart.true"), truth)
	if len(c.read) > 0 {
		p.layers = append(p.layers, layer{look: "read", name: v.say("chart.read"), line: thin(c.read), dots: true})
	}
	if len(written) > 0 {
		p.addLine("written", v.say("chart.written"), written)
	}
	return p.draw(v)
}

// ticks returns about n round numbers between from and to.
func ticks(from, to float64, n int) []float64 {
	span := to - from
	if span <= 0 || n < 1 {
		return []float64{from}
	}
	step := math.Pow(10, math.Floor(math.Log10(span/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if span/(step*m) <= float64(n) {
			step *= m
			break
		}
	}
	var list []float64
	for v := math.Ceil(from/step) * step; v <= to+step*1e-6; v += step {
		list = append(list, math.Round(v/step)*step)
	}
	return list
}

// axisLabel formats a moment on an axis that spans span milliseconds.
func axisLabel(ms, span float64) string {
	switch {
	case span >= 3000:
		return fmt.Sprintf("%.4g s", ms/1000)
	case span < 3:
		// Two labels beside each other must differ, and an axis has about eight.
		digits := max(2, int(math.Ceil(-math.Log10(max(span, 1e-6)/8))))
		return fmt.Sprintf("%.*f ms", digits, ms)
	}
	return fmt.Sprintf("%.4g ms", ms)
}

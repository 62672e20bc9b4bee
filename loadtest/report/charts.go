package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"example.com/stock/internal/words"
)

// places is the number of places along the time axis that can be distinguished.
const places = 500

func points(line []moment) plotter.XYs {
	xy := make(plotter.XYs, len(line))
	for i, m := range line {
		xy[i].X, xy[i].Y = m.ms, m.units
	}
	return xy
}

// A frame holds the axes that several charts of stock share.
type frame struct{ end, least, most float64 }

// hold makes room for c.
func (f *frame) hold(c *course) {
	for _, line := range [][]moment{c.truth, c.written, c.read} {
		for _, m := range line {
			f.end, f.least, f.most = max(f.end, m.ms), min(f.least, m.units), max(f.most, m.units)
		}
	}
}

// stockChart draws the stock over time as read, as written and as true, and fills the gap between the last two. The
// true stock must have a point. axes may be nil.
func stockChart(v voice, c *course, size float64, axes *frame) *chart {
	p := newChart(size)
	truth, written, read := thin(c.truth), thin(c.written), thin(c.read)
	if len(written) > 0 && c.gaps() {
		p.fill(written, truth, inkGap, v.say("chart.gap"))
	}
	grid := plotter.NewGrid()
	grid.Horizontal, grid.Vertical = p.line(inkGrid, 0.6), draw.LineStyle{}
	p.Add(grid)
	p.step(truth, p.line(inkTruth, 1.8), v.say("chart.true"))
	if len(read) > 0 {
		if dots, err := plotter.NewScatter(points(read)); err == nil {
			dots.GlyphStyle = draw.GlyphStyle{Color: inkRead, Radius: vg.Points(2), Shape: draw.CrossGlyph{}}
			p.Add(dots)
			p.explain(v.say("chart.read"), dots)
		}
	}
	if len(written) > 0 {
		p.step(written, p.line(inkWritten, 1.4, 4, 2), v.say("chart.written"))
	}
	if axes != nil {
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, axes.end, axes.least, axes.most
	}
	if p.Y.Min < 0 {
		zero, err := plotter.NewLine(plotter.XYs{{X: p.X.Min, Y: 0}, {X: p.X.Max, Y: 0}})
		if err == nil {
			zero.LineStyle = p.line(inkFailed, 1, 1, 2)
			p.Add(zero)
			p.explain(v.say("chart.zero"), zero)
		}
	}
	p.finish(v, c.commands)
	return p
}

// step draws a line that keeps its height until the next point.
func (c *chart) step(line []moment, style draw.LineStyle, name string) {
	l, err := plotter.NewLine(points(line))
	if err != nil {
		return
	}
	l.StepStyle, l.LineStyle = plotter.PostStep, style
	c.Add(l)
	c.explain(name, l)
}

// fill fills the area between two such lines.
func (c *chart) fill(one, other []moment, i ink, name string) {
	area, err := plotter.NewPolygon(append(stairs(one), backwards(stairs(other))...))
	if err != nil {
		return
	}
	area.Color, area.LineStyle.Width = i, 0
	c.Add(area)
	c.explain(name, swatch{i})
}

// finish makes the axes of a chart of units over time, with the commands of the run.
func (c *chart) finish(v voice, commands []float64) {
	c.X.Tick.Marker, c.Y.Tick.Marker = round{6, axisLabel}, round{5, plainNumber}
	c.Y.Label.Text = v.say("chart.units")
	c.Y.Max += (c.Y.Max - c.Y.Min) * 0.04
	c.markCommands(v, commands)
}

// stairs returns the corners of a line that keeps its height until the next point.
func stairs(line []moment) plotter.XYs {
	var xy plotter.XYs
	for i, m := range line {
		if i > 0 {
			xy = append(xy, plotter.XY{X: m.ms, Y: line[i-1].units})
		}
		xy = append(xy, plotter.XY{X: m.ms, Y: m.units})
	}
	return xy
}

func backwards(xy plotter.XYs) plotter.XYs { slices.Reverse(xy); return xy }

// A swatch stands for a filled area in a legend.
type swatch struct{ ink }

// Thumbnail fills the area of the sample.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.ink, []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}})
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

// round is an axis with round numbers, formatted by label.
type round struct {
	n     int
	label func(v, span float64) string
}

func (a round) Ticks(from, to float64) []plot.Tick {
	var list []plot.Tick
	for _, v := range ticks(from, to, a.n) {
		list = append(list, plot.Tick{Value: v, Label: a.label(v, to-from)})
	}
	return list
}

func plainNumber(v, _ float64) string { return thousands(int64(math.Round(v))) }

// at returns a percentile of sorted values, by nearest rank.
func at(sorted []float64, percent float64) float64 {
	rank := int(math.Ceil(percent / 100 * float64(len(sorted))))
	return sorted[min(max(rank-1, 0), len(sorted)-1)]
}

// An entry is a line of a legend.
type entry struct {
	name    string
	samples []plot.Thumbnailer
}

func (c *chart) explain(name string, samples ...plot.Thumbnailer) {
	c.legend = append(c.legend, entry{name, samples})
}

// textWidth returns the width of a text, also if the font has no Chinese characters and so cannot measure them.
func textWidth(style draw.TextStyle, name string) vg.Length {
	wide := 0
	for _, r := range name {
		if words.Wide(r) {
			wide++
		}
	}
	if wide == 0 {
		return style.Width(name)
	}
	latin := strings.Map(func(r rune) rune {
		if words.Wide(r) {
			return -1
		}
		return r
	}, name)
	return style.Width(latin) + style.Font.Size*vg.Length(wide)
}

// drawLegend draws the legend in rows along the top, where it hides nothing, and returns the room below it. (The legend
// of a plot lies among the data.)
func (c *chart) drawLegend(area draw.Canvas) draw.Canvas {
	style := c.Legend.TextStyle
	row, gap, sample := vg.Points(c.size*1.45), vg.Points(14), vg.Points(24)
	x, y := area.Min.X+vg.Points(4), area.Max.Y-row
	for _, e := range c.legend {
		width := sample + vg.Points(5) + textWidth(style, e.name)
		if x+width > area.Max.X && x > area.Min.X+gap {
			x, y = area.Min.X+vg.Points(4), y-row
		}
		box := draw.Canvas{Canvas: area.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: y + row*0.15}, Max: vg.Point{X: x + sample, Y: y + row*0.8},
		}}
		for _, s := range e.samples {
			s.Thumbnail(&box)
		}
		at := style
		at.YAlign = draw.YCenter
		area.FillText(at, vg.Point{X: x + sample + vg.Points(5), Y: y + row*0.475}, e.name)
		x += width + gap
	}
	edge := vg.Points(-c.size * 1.2) // the last label of the axis is wider than its mark
	if len(c.legend) == 0 {
		return draw.Crop(area, 0, edge, 0, 0)
	}
	return draw.Crop(area, 0, edge, 0, y-vg.Points(6)-area.Max.Y)
}

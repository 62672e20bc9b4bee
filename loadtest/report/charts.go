package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"example.com/stock/loadtest"
)

// places is how many places along the time axis can be told apart.
const places = 500

func points(line []moment) plotter.XYs {
	xy := make(plotter.XYs, len(line))
	for i, m := range line {
		xy[i].X, xy[i].Y = m.ms, m.units
	}
	return xy
}

// stockChart draws the stock over time as read, as written and as true, with the gap between the last two filled. It needs some truth.
func stockChart(c *course, mark func(ink) color.Color, size float64) *chart {
	p := newChart(mark, size)
	truth, written, read := thin(c.truth, places), thin(c.written, places), c.read
	if step := (len(read) + places - 1) / places; step > 1 {
		var some []moment
		for i := 0; i < len(read); i += step {
			some = append(some, read[i])
		}
		read = some
	}
	if len(written) > 0 && c.gaps() {
		gap, err := plotter.NewPolygon(append(stairs(written), backwards(stairs(truth))...))
		if err == nil {
			gap.Color, gap.LineStyle.Width = mark(inkGap), 0
			p.Add(gap)
			p.explain("gap: sold, and still counted as stock", swatch{mark(inkGap)})
		}
	}
	grid := plotter.NewGrid()
	grid.Horizontal, grid.Vertical = p.line(inkGrid, 0.6), draw.LineStyle{}
	p.Add(grid)
	step := func(line []moment, style draw.LineStyle, name string) {
		l, err := plotter.NewLine(points(line))
		if err != nil {
			return
		}
		l.StepStyle, l.LineStyle = plotter.PostStep, style
		p.Add(l)
		p.explain(name, l)
	}
	step(truth, p.line(inkTruth, 1.8), "as true: at first, less what was sold")
	if len(read) > 0 {
		if dots, err := plotter.NewScatter(points(read)); err == nil {
			dots.GlyphStyle = draw.GlyphStyle{Color: mark(inkRead), Radius: vg.Points(2), Shape: draw.CrossGlyph{}}
			p.Add(dots)
			p.explain("as read", dots)
		}
	}
	if len(written) > 0 {
		step(written, p.line(inkWritten, 1.4, 4, 2), "as written")
	}
	if p.Y.Min < 0 {
		zero, err := plotter.NewLine(plotter.XYs{{X: p.X.Min, Y: 0}, {X: p.X.Max, Y: 0}})
		if err == nil {
			zero.LineStyle = p.line(inkFailed, 1, 1, 2)
			p.Add(zero)
			p.explain("nothing left: below, it is oversold", zero)
		}
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = round{6, axisLabel}, round{5, plainNumber}
	p.Y.Label.Text = "units"
	p.Y.Max += (p.Y.Max - p.Y.Min) * 0.04
	return p
}

// stairs are the corners of a line that keeps its height until the next point.
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
type swatch struct{ color.Color }

// Thumbnail fills the place of the sample.
func (s swatch) Thumbnail(c *draw.Canvas) {
	c.FillPolygon(s.Color, []vg.Point{c.Min, {X: c.Min.X, Y: c.Max.Y}, c.Max, {X: c.Max.X, Y: c.Min.Y}})
}

// A look is how an outcome is drawn: by colour, and by something else.
type look struct {
	ink    ink
	dashes []float64
	shape  draw.GlyphDrawer
}

func lookOf(o loadtest.Outcome) look {
	switch o {
	case loadtest.Accepted:
		return look{inkAccepted, nil, draw.CircleGlyph{}}
	case loadtest.Busy:
		return look{inkBusy, []float64{6, 3}, draw.SquareGlyph{}}
	case loadtest.SoldOut:
		return look{inkSoldOut, []float64{2, 2}, draw.TriangleGlyph{}}
	case loadtest.Failed:
		return look{inkFailed, []float64{8, 2, 2, 2}, draw.CrossGlyph{}}
	default:
		return look{inkUnknown, []float64{1, 2}, draw.PlusGlyph{}}
	}
}

// shares are the percentiles of the percentile chart, in percent.
func shares() []float64 { return []float64{0, 10, 25, 50, 75, 90, 95, 99, 99.5, 99.9, 99.99} }

// nines places percentiles so that each further nine takes as much room as the one before, as HdrHistogram's pictures do.
func nines(percent float64) float64 { return -math.Log10(1 - percent/100) }

type nineTicks struct{}

func (nineTicks) Ticks(_, to float64) []plot.Tick {
	var list []plot.Tick
	for _, percent := range []float64{0, 50, 90, 99, 99.9, 99.99} {
		if v := nines(percent); v <= to+1e-9 {
			list = append(list, plot.Tick{Value: v, Label: fmt.Sprintf("%g %%", percent)})
		}
	}
	return list
}

// percentileChart draws latency by percentile, a line for each outcome.
func percentileChart(l latencies, mark func(ink) color.Color, size float64) *chart {
	p := newChart(mark, size)
	grid := plotter.NewGrid()
	grid.Horizontal, grid.Vertical = p.line(inkGrid, 0.6), p.line(inkGrid, 0.6)
	p.Add(grid)
	for _, o := range l.outcomes() {
		sorted := l[o]
		var xy plotter.XYs
		for _, percent := range shares() {
			// Beyond one in n there is nothing that n replies could tell.
			if percent > 50 && float64(len(sorted))*(1-percent/100) < 0.999 {
				break
			}
			xy = append(xy, plotter.XY{X: nines(percent), Y: at(sorted, percent)})
		}
		line, dots, err := plotter.NewLinePoints(xy)
		if err != nil {
			continue
		}
		look := lookOf(o)
		line.LineStyle = p.line(look.ink, 1.6, look.dashes...)
		dots.GlyphStyle = draw.GlyphStyle{Color: mark(look.ink), Radius: vg.Points(2.4), Shape: look.shape}
		p.Add(line, dots)
		p.explain(fmt.Sprintf("%s (%d)", words(o), len(sorted)), line, dots)
	}
	p.X.Tick.Marker = nineTicks{}
	p.logMillis(&p.Y)
	p.X.Label.Text = "of the replies came within"
	return p
}

// logMillis makes axis a logarithmic one that begins and ends at a label.
func (c *chart) logMillis(axis *plot.Axis) {
	if axis.Min > axis.Max {
		axis.Min, axis.Max = 1, 10 // nothing is drawn: the axis of an empty plot has no end
	}
	axis.Min, axis.Max = max(axis.Min, 0.001), max(axis.Max, 0.002)
	if axis.Max < axis.Min*2 {
		axis.Min, axis.Max = axis.Min/1.5, axis.Max*1.5
	}
	axis.Max *= 1.3
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, decades{}
}

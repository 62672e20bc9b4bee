package report

import (
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"example.com/stock/loadtest"
)

// timelineChart draws the lanes as a plot, for slides: a page has them as elements of its own, which can be pointed at.
func timelineChart(t *timeline, mark func(ink) color.Color, size float64) *chart {
	c := newChart(mark, size)
	c.Add(lanes{t, c})
	c.X.Min, c.X.Max, c.Y.Min, c.Y.Max = t.from, t.to, -0.5, float64(len(t.lanes))-0.5
	c.X.Tick.Marker, c.Y.Tick.Marker = round{8, axisLabel}, laneTicks{t}
	c.Y.Tick.Length, c.Y.LineStyle.Width = 0, 0
	c.Y.Tick.Label.Font.Size = vg.Points(size * 0.7)
	if t.HasWaits {
		c.explain("waits", stroke{c.line(inkSoldOut, 2, 2, 2)})
	}
	c.explain("in the critical section", swatch{mark(inkRead)})
	if t.pairs > 0 {
		c.explain("not alone there", swatch{mark(inkFailed)})
	}
	return c
}

// lanes draws waits as dashed lines, holds as boxes, and company as taller boxes with a border.
type lanes struct {
	*timeline
	chart *chart
}

func (l lanes) Plot(area draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&area)
	box := func(i ink, from, to float64, middle, half vg.Length) {
		right := max(x(to), x(from)+vg.Points(0.8))
		area.FillPolygon(l.chart.mark(i), []vg.Point{{X: x(from), Y: middle - half}, {X: x(from), Y: middle + half}, {X: right, Y: middle + half}, {X: right, Y: middle - half}})
	}
	lane := (y(1) - y(0)) / 2
	for i := range l.bars {
		b := &l.bars[i]
		middle := y(float64(len(l.lanes) - 1 - b.lane))
		if b.from > b.asked {
			area.StrokeLine2(l.chart.line(inkSoldOut, 2, 2, 2), x(b.asked), middle, x(b.from), middle)
		}
		box(inkRead, b.from, b.to, middle, lane*0.5)
		if b.together > 0 {
			box(inkFailed, b.firstMet, b.last, middle, lane*0.85)
		}
	}
}

// laneTicks name the lanes, the first on top.
type laneTicks struct{ *timeline }

func (t laneTicks) Ticks(_, _ float64) []plot.Tick {
	var list []plot.Tick
	for i, l := range t.lanes {
		list = append(list, plot.Tick{Value: float64(len(t.lanes) - 1 - i), Label: short(l.instance) + " w" + strconv.Itoa(l.worker)})
	}
	return list
}

func compareHeight(runs int) float64 { return float64(70 + 20*runs) }

// compareChart draws for each run the span of the latencies of its sales from the median to the 99th percentile, on one logarithmic axis. A run
// that sold nothing has its row, and no span.
func compareChart(runs []*loadtest.Result, mark func(ink) color.Color, size float64) *chart {
	c := newChart(mark, size)
	grid := plotter.NewGrid()
	grid.Horizontal, grid.Vertical = draw.LineStyle{}, c.line(inkGrid, 0.6)
	c.Add(grid)
	var medians, tails plotter.XYs
	var names namedRows
	for i, r := range runs {
		y := float64(len(runs) - 1 - i)
		names = append(names, plot.Tick{Value: y, Label: heading(r)})
		sales := r.Latency.Accepted()
		if sales.Count == 0 {
			continue
		}
		p50, p99 := max(sales.P50, 0.001), max(sales.P99, 0.001)
		medians, tails = append(medians, plotter.XY{X: p50, Y: y}), append(tails, plotter.XY{X: p99, Y: y})
		if span, err := plotter.NewLine(plotter.XYs{{X: p50, Y: y}, {X: p99, Y: y}}); err == nil {
			span.LineStyle = c.line(inkSoldOut, 2.5)
			c.Add(span)
		}
	}
	dots := func(xy plotter.XYs, i ink, shape draw.GlyphDrawer, name string) {
		s, err := plotter.NewScatter(xy)
		if err != nil {
			return
		}
		s.GlyphStyle = draw.GlyphStyle{Color: mark(i), Radius: vg.Points(3.5), Shape: shape}
		c.Add(s)
		c.explain(name, s)
	}
	dots(medians, inkAccepted, draw.CircleGlyph{}, "median of sales")
	dots(tails, inkFailed, draw.SquareGlyph{}, "99th percentile of sales")
	c.logMillis(&c.X)
	c.Y.Tick.Marker, c.Y.Tick.Length, c.Y.LineStyle.Width = names, 0, 0
	c.Y.Min, c.Y.Max = -0.6, float64(len(runs))-0.4
	return c
}

type namedRows []plot.Tick

func (n namedRows) Ticks(_, _ float64) []plot.Tick { return n }

// A stroke stands for a line in a legend.
type stroke struct{ draw.LineStyle }

// Thumbnail draws the line through the middle of the place of the sample.
func (s stroke) Thumbnail(c *draw.Canvas) {
	y := c.Center().Y
	c.StrokeLine2(s.LineStyle, c.Min.X, y, c.Max.X, y)
}

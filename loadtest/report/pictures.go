package report

import (
	"fmt"
	"regexp"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"example.com/stock/loadtest"
)

// FileName returns the name of a strategy as a part of the name of a file. A service, or a history, may give a strategy
// any name, such as a path.
func FileName(strategy string) string {
	const most = 100 // bytes
	name := regexp.MustCompile(`[^\p{L}\p{N}.-]+|^[.-]+`).ReplaceAllString(strategy, "_")
	return strings.ToValidUTF8(name[:min(len(name), most)], "")
}

func compareHeight(runs int) float64 { return float64(70 + 20*runs) }

// compareChart draws, for each run, the range of the latencies of its sales from the median to the 99th percentile, on
// one logarithmic axis. A run that sold nothing has a row without a range.
func compareChart(v voice, runs []*loadtest.Result, size float64) *chart {
	rows := make([]latencyRow, len(runs))
	for i, r := range runs {
		sales := r.Latency.Accepted()
		rows[i] = latencyRow{v.in(named(r)), sales.Count > 0, sales.P50, sales.P99}
	}
	return rangeChart(rows, v.say("chart.median"), v.say("chart.tail"), size)
}

// A latencyRow is a row of a rangeChart: its name, whether there is anything to draw, and its range in milliseconds.
type latencyRow struct {
	name     string
	any      bool
	p50, p99 float64
}

// rangeChart draws, for each row, the range from the median to the 99th percentile, on one logarithmic axis.
func rangeChart(rows []latencyRow, median, tail string, size float64) *chart {
	c := newChart(size)
	grid := plotter.NewGrid()
	grid.Horizontal, grid.Vertical = draw.LineStyle{}, c.line(inkGrid, 0.6)
	c.Add(grid)
	var medians, tails plotter.XYs
	var names namedRows
	for i, row := range rows {
		y := float64(len(rows) - 1 - i)
		names = append(names, plot.Tick{Value: y, Label: row.name})
		if !row.any {
			continue
		}
		p50, p99 := max(row.p50, 0.001), max(row.p99, 0.001)
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
		s.GlyphStyle = draw.GlyphStyle{Color: i, Radius: vg.Points(3.5), Shape: shape}
		c.Add(s)
		c.explain(name, s)
	}
	dots(medians, inkAccepted, draw.CircleGlyph{}, median)
	dots(tails, inkFailed, draw.SquareGlyph{}, tail)
	c.logMillis(&c.X)
	c.Y.Tick.Marker, c.Y.Tick.Length, c.Y.LineStyle.Width = names, 0, 0
	c.Y.Min, c.Y.Max = -0.6, float64(len(rows))-0.4
	return c
}

type namedRows []plot.Tick

func (n namedRows) Ticks(_, _ float64) []plot.Tick { return n }

// A chart is a plot that is drawn with inks.
type chart struct {
	*plot.Plot
	size   float64 // of the text, in points
	legend []entry
}

func newChart(size float64) *chart {
	p := plot.New()
	c := &chart{Plot: p, size: size}
	p.BackgroundColor = nil
	style := func(s *text.Style, size float64) {
		s.Color = inkText
		s.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(size))
	}
	style(&p.Title.TextStyle, size+1)
	style(&p.Legend.TextStyle, size)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		style(&axis.Label.TextStyle, size)
		style(&axis.Tick.Label, size)
		axis.LineStyle.Color, axis.Tick.Color = inkText, inkText
		axis.LineStyle.Width, axis.Tick.Width = vg.Points(0.7), vg.Points(0.7)
		axis.Tick.Length = vg.Points(4)
	}
	return c
}

func (c *chart) line(i ink, width float64, dashes ...float64) draw.LineStyle {
	style := draw.LineStyle{Color: i, Width: vg.Points(width)}
	for _, d := range dashes {
		style.Dashes = append(style.Dashes, vg.Points(d))
	}
	return style
}

// A hint is a text for a range of the x-axis. The page shows it under the pointer.
type hint struct {
	from, to float64 // in units of the axis
	text     string
}

// toSVG draws c as an element for a page whose style sheet defines the inks.
func (c *chart) toSVG(width, height float64, class, label string, hints []hint) string {
	canvas := &svg{height: vg.Points(height)}
	area := c.drawLegend(draw.NewCanvas(canvas, vg.Points(width), vg.Points(height)))
	c.Draw(area)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg class="chart %s" viewBox="0 0 %g %g" role="img" aria-label="%s">`, class, width, height,
		escape(label))
	out.Write(canvas.out.Bytes())
	inner := c.DataCanvas(area)
	x, _ := c.Transforms(&inner)
	for _, h := range hints {
		from, to := x(h.from).Points(), x(h.to).Points()
		fmt.Fprintf(&out, `<rect class="hint" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s</title></rect>`,
			from, height-inner.Max.Y.Points(), max(to-from, 0.5), (inner.Max.Y - inner.Min.Y).Points(), escape(h.text))
	}
	out.WriteString("</svg>")
	return out.String()
}

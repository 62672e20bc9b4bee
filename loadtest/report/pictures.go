package report

import (
	"bytes"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// Formats of pictures.
const (
	SVG = "svg"
	PNG = "png"
)

// Pixels of a picture for slides; 16:9 or wider.
const slideWidth, slideHeight = 960, 440

// WritePictures writes the pictures of each run into a folder, which it creates: stock, timeline, percentiles,
// histogram and, for several runs, a comparison. It returns the names of the files.
func WritePictures(dir, format, lang string, runs []*loadtest.Result) ([]string, error) {
	if format == PNG && lang == words.Chinese && chineseFont() == nil {
		return nil, phrases.Error("slide.no-font")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	write := func(name string, picture []byte) error {
		path := filepath.Join(dir, name+"."+format)
		names = append(names, path)
		return os.WriteFile(path, picture, 0o644)
	}
	for i, r := range runs {
		name := FileName(strings.TrimSuffix(r.Plan.Strategy+"-"+r.Plan.Store, "-"))
		if len(runs) > 1 {
			name = fmt.Sprintf("%02d-%s", i+1, name)
		}
		for kind, picture := range pictures(voice(lang), r, format) {
			if err := write(name+"-"+kind, picture); err != nil {
				return names, err
			}
		}
	}
	if len(runs) > 1 {
		c := compareChart(voice(lang), runs, inked(format), 13).titled(voice(lang).say("caption.compare"))
		return names, write("comparison", c.encode(format, slideWidth, compareHeight(len(runs))))
	}
	return names, nil
}

// FileName returns the name of a strategy as a part of the name of a file. A service, or a history, may give a strategy
// any name, such as a path.
func FileName(strategy string) string {
	const most = 100 // bytes
	name := regexp.MustCompile(`[^\p{L}\p{N}.-]+|^[.-]+`).ReplaceAllString(strategy, "_")
	return strings.ToValidUTF8(name[:min(len(name), most)], "")
}

func inked(format string) func(ink) color.Color {
	if format == SVG {
		return marked
	}
	return printed
}

// pictures yields the pictures of a run by kind.
func pictures(v voice, r *loadtest.Result, format string) func(func(string, []byte) bool) {
	return func(yield func(string, []byte) bool) {
		t := lay(v, r, limits{holdsAlone / 2, lanesAlone / 2})
		title := v.slideTitle(r)
		if c := follow(r, t.story); len(c.truth) > 1 &&
			!yield("stock", stockChart(v, c, inked(format), 13, nil).titled(title).
				encode(format, slideWidth, slideHeight)) {
			return
		}
		if len(t.bars) > 0 &&
			!yield("timeline", timelineChart(t, inked(format), 13).titled(title).
				encode(format, slideWidth, max(float64(t.height()), slideHeight))) {
			return
		}
		l := latenciesOf(r)
		if len(l) == 0 {
			return
		}
		_ = yield("percentiles", percentileChart(v, l, inked(format), 13).titled(title).
			encode(format, slideWidth, slideHeight)) &&
			yield("histogram",
				histogramChart(v, l, l.histogram(), inked(format), 13, slideWidth).titled(title).
					encode(format, slideWidth, slideHeight))
	}
}

// slideTitle names the run and its verdict, so that a slide is self-explanatory.
func (v voice) slideTitle(r *loadtest.Result) string {
	word, class, _ := v.judged(r)
	if class == "raced" {
		word = v.say("judged.expected")
	}
	j := &r.Verdict
	if j.OversoldUnits > 0 || j.LostUnits > 0 {
		return v.say("slide.damage", "run", named(r), "verdict", word, "oversold", thousands(j.OversoldUnits),
			"lost", thousands(max(j.LostUnits, 0)))
	}
	return v.say("slide.title", "run", named(r), "verdict", word, "sold", thousands(j.AcceptedUnits),
		"initial", thousands(j.InitialUnits))
}

func (c *chart) titled(title string) *chart {
	c.title = title
	return c
}

// encode draws c as a separate file.
func (c *chart) encode(format string, width, height float64) []byte {
	if format == PNG {
		return c.toPNG(width, height)
	}
	body := c.toSVG(width, height, "", "", nil)
	patterns := read("patterns.svg")
	from, to := strings.Index(patterns, "<defs>"), strings.Index(patterns, "</svg>")
	opening := fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" `, width, height)
	inner := strings.Index(body, ">") + 1
	return []byte(opening + strings.TrimPrefix(body[:inner], "<svg ") +
		"<style>" + read("page.css") + "</style>" + patterns[from:to] + body[inner:])
}

// timelineChart draws the lanes as a plot, for slides. A page has them as elements that show hints.
func timelineChart(t *timeline, mark func(ink) color.Color, size float64) *chart {
	c := newChart(mark, size)
	c.Add(lanes{t, c})
	c.X.Min, c.X.Max, c.Y.Min, c.Y.Max = t.from, t.to, -0.5, float64(len(t.lanes))-0.5
	c.X.Tick.Marker, c.Y.Tick.Marker = round{8, axisLabel}, laneTicks{t}
	c.Y.Tick.Length, c.Y.LineStyle.Width = 0, 0
	c.Y.Tick.Label.Font.Size = vg.Points(size * 0.7)
	if t.HasWaits {
		c.explain(t.say("chart.waits"), stroke{c.line(inkSoldOut, 2, 2, 2)})
	}
	c.explain(t.say("chart.inside"), swatch{mark(inkRead)})
	if t.Batches() > 0 {
		c.explain(t.say("chart.batch"), swatch{mark(inkGrid)})
	}
	if t.pairs > 0 {
		c.explain(t.say("chart.met"), swatch{mark(inkFailed)})
	}
	return c
}

// lanes draws waits as dashed lines, holds as boxes, and overlaps as taller boxes with a border.
type lanes struct {
	*timeline
	chart *chart
}

func (l lanes) Plot(area draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&area)
	box := func(i ink, from, to float64, middle, half vg.Length) {
		right := max(x(to), x(from)+vg.Points(0.8))
		area.FillPolygon(l.chart.mark(i), []vg.Point{
			{X: x(from), Y: middle - half},
			{X: x(from), Y: middle + half},
			{X: right, Y: middle + half},
			{X: right, Y: middle - half},
		})
	}
	l.frames(area, x, y)
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

// laneTicks names the lanes, the first on top.
type laneTicks struct{ *timeline }

func (t laneTicks) Ticks(_, _ float64) []plot.Tick {
	var list []plot.Tick
	for i, l := range t.lanes {
		list = append(list,
			plot.Tick{Value: float64(len(t.lanes) - 1 - i), Label: t.short(l.instance) + " w" + strconv.Itoa(l.worker)})
	}
	return list
}

func compareHeight(runs int) float64 { return float64(70 + 20*runs) }

// compareChart draws, for each run, the range of the latencies of its sales from the median to the 99th percentile, on
// one logarithmic axis. A run that sold nothing has a row without a range.
func compareChart(v voice, runs []*loadtest.Result, mark func(ink) color.Color, size float64) *chart {
	rows := make([]latencyRow, len(runs))
	for i, r := range runs {
		sales := r.Latency.Accepted()
		rows[i] = latencyRow{v.in(named(r)), sales.Count > 0, sales.P50, sales.P99}
	}
	return rangeChart(rows, v.say("chart.median"), v.say("chart.tail"), mark, size)
}

// A latencyRow is a row of a rangeChart: its name, whether there is anything to draw, and its range in milliseconds.
type latencyRow struct {
	name     string
	any      bool
	p50, p99 float64
}

// rangeChart draws, for each row, the range from the median to the 99th percentile, on one logarithmic axis.
func rangeChart(rows []latencyRow, median, tail string, mark func(ink) color.Color, size float64) *chart {
	c := newChart(mark, size)
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
		s.GlyphStyle = draw.GlyphStyle{Color: mark(i), Radius: vg.Points(3.5), Shape: shape}
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

// A stroke stands for a line in a legend.
type stroke struct{ draw.LineStyle }

// Thumbnail draws the line through the middle of the sample.
func (s stroke) Thumbnail(c *draw.Canvas) {
	y := c.Center().Y
	c.StrokeLine2(s.LineStyle, c.Min.X, y, c.Max.X, y)
}

// An ink is a colour by its use. In a page it is a variable of the style sheet, so that light and dark share one
// picture. In a picture for slides it is the light colour.
type ink uint8

const (
	inkText ink = iota + 1
	inkGrid
	inkTruth
	inkWritten
	inkRead
	inkGap // hatched in a page
	inkAccepted
	inkBusy
	inkSoldOut
	inkFailed
	inkUnknown
)

// light returns the colour in a picture for slides, the same as in the style sheet. Colours differ in lightness, not
// only in hue.
func light(i ink) color.NRGBA {
	switch i {
	case inkGrid:
		return hex(0xdfe3e8)
	case inkWritten:
		return hex(0xb45309)
	case inkRead:
		return hex(0x2563eb)
	case inkGap:
		return color.NRGBA{R: 0xc6, G: 0x28, B: 0x28, A: 0x55}
	case inkAccepted:
		return hex(0x0b6e4f)
	case inkBusy:
		return hex(0xd29922)
	case inkSoldOut:
		return hex(0x8fa3b8)
	case inkFailed:
		return hex(0xc62828)
	case inkUnknown:
		return hex(0x6d28d9)
	default:
		return hex(0x1f2933)
	}
}

func hex(rgb uint32) color.NRGBA {
	return color.NRGBA{R: uint8(rgb >> 16), G: uint8(rgb >> 8), B: uint8(rgb), A: 0xff}
}

// A chart is a plot that can be drawn with either kind of ink.
type chart struct {
	*plot.Plot
	mark   func(ink) color.Color
	size   float64 // of the text, in points
	legend []entry
	title  string // of a picture for slides
}

// marked returns a unique colour, by which toSVG recognises the ink.
func marked(i ink) color.Color { return color.NRGBA{B: uint8(i), A: 0xff} }

func printed(i ink) color.Color { return light(i) }

func newChart(mark func(ink) color.Color, size float64) *chart {
	p := plot.New()
	c := &chart{Plot: p, mark: mark, size: size}
	p.BackgroundColor = color.Transparent
	style := func(s *text.Style, size float64) {
		s.Color = mark(inkText)
		s.Font = font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, vg.Points(size))
	}
	style(&p.Title.TextStyle, size+1)
	style(&p.Legend.TextStyle, size)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		style(&axis.Label.TextStyle, size)
		style(&axis.Tick.Label, size)
		axis.LineStyle.Color, axis.Tick.Color = mark(inkText), mark(inkText)
		axis.LineStyle.Width, axis.Tick.Width = vg.Points(0.7), vg.Points(0.7)
		axis.Tick.Length = vg.Points(4)
	}
	return c
}

func (c *chart) line(i ink, width float64, dashes ...float64) draw.LineStyle {
	style := draw.LineStyle{Color: c.mark(i), Width: vg.Points(width)}
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

var (
	prolog    = regexp.MustCompile(`(?s)^.*?<svg[^>]*>`)
	coloured  = regexp.MustCompile(`(fill|stroke):#0000([0-9A-F]{2})`)
	typeface  = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;?`)
	blankLine = regexp.MustCompile(`\s*\n\s*`)
)

// toSVG draws c as an element for a page whose style sheet defines the inks.
func (c *chart) toSVG(width, height float64, class, label string, hints []hint) string {
	canvas := vgsvg.New(vg.Points(width), vg.Points(height))
	area := c.drawLegend(draw.New(canvas))
	c.Draw(area)
	var b bytes.Buffer
	_, _ = canvas.WriteTo(&b) // to memory
	body := prolog.ReplaceAll(b.Bytes(), nil)
	body = coloured.ReplaceAllFunc(body, func(m []byte) []byte {
		parts := coloured.FindSubmatch(m)
		n, _ := strconv.ParseUint(string(parts[2]), 16, 8)
		// Areas also have a pattern, because not everybody can distinguish the colours.
		if i := ink(n); i >= inkGap && string(parts[1]) == "fill" {
			return fmt.Appendf(nil, "fill:url(#f%d)", n)
		}
		return fmt.Appendf(nil, "%s:var(--i%d)", parts[1], n)
	})
	body = typeface.ReplaceAll(body, nil)
	body = blankLine.ReplaceAll(body, []byte(" "))
	body = bytes.TrimSuffix(bytes.TrimSpace(body), []byte("</svg>"))
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg class="chart %s" viewBox="0 0 %g %g" role="img" aria-label="%s">`, class, width, height,
		escape(label))
	out.Write(body)
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

// toPNG draws c for slides: twice as many pixels as points.
func (c *chart) toPNG(width, height float64) []byte {
	c.speakChinese()
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Points(width), vg.Points(height)), vgimg.UseDPI(144),
		vgimg.UseBackgroundColor(color.White))
	c.Draw(c.drawLegend(draw.New(canvas)))
	var b bytes.Buffer
	_, _ = vgimg.PngCanvas{Canvas: canvas}.WriteTo(&b) // to memory
	return b.Bytes()
}

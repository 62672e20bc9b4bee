package report

import (
	"fmt"
	"html/template"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
func (c *chart) toSVG(width, height float64, class, label string, hints []hint) template.HTML {
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
	return template.HTML(out.String())
}

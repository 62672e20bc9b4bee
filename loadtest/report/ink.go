package report

import (
	"bytes"
	"fmt"
	"image/color"
	"regexp"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// An ink is a colour by its use. In a page it is a variable of the style sheet, so that light and dark need one picture; in a picture for
// slides it is the light one.
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

// light is the colour in a picture for slides; the style sheet has the same. They differ in lightness, not in hue alone.
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

// A chart is a plot that is drawn with either kind of ink.
type chart struct {
	*plot.Plot
	mark   func(ink) color.Color
	size   float64 // of the text, in points
	legend []entry
}

// marked is a colour that no picture has otherwise, by which toSVG finds the ink.
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

// A hint is a text for a stretch of the x-axis, shown when it is pointed at.
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
		// Areas have a pattern, too: colour alone would not do for everybody.
		if i := ink(n); i >= inkGap && string(parts[1]) == "fill" {
			return fmt.Appendf(nil, "fill:url(#f%d)", n)
		}
		return fmt.Appendf(nil, "%s:var(--i%d)", parts[1], n)
	})
	body = typeface.ReplaceAll(body, nil)
	body = blankLine.ReplaceAll(body, []byte(" "))
	body = bytes.TrimSuffix(bytes.TrimSpace(body), []byte("</svg>"))
	var out bytes.Buffer
	fmt.Fprintf(&out, `<svg class="chart %s" viewBox="0 0 %g %g" role="img" aria-label="%s">`, class, width, height, escape(label))
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
	canvas := vgimg.NewWith(vgimg.UseWH(vg.Points(width), vg.Points(height)), vgimg.UseDPI(144), vgimg.UseBackgroundColor(color.White))
	c.Draw(c.drawLegend(draw.New(canvas)))
	var b bytes.Buffer
	_, _ = vgimg.PngCanvas{Canvas: canvas}.WriteTo(&b) // to memory
	return b.Bytes()
}

package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// An ink is a colour by its use. It is a variable of the style sheet, so that light and dark share one picture.
type ink uint8

const (
	inkText ink = iota + 1
	inkGrid
	inkTruth
	inkWritten
	inkRead
	inkGap // hatched
	inkAccepted
	inkBusy
	inkSoldOut
	inkFailed
)

// RGBA makes an ink a color.Color. Its value is in the style sheet, and not here.
func (ink) RGBA() (r, g, b, a uint32) { return 0, 0, 0, math.MaxUint16 }

func (i ink) line() string { return fmt.Sprintf("var(--i%d)", i) }

// area returns what fills an area. It has a pattern, because not everybody can distinguish the colours.
func (i ink) area() string {
	if i >= inkGap {
		return fmt.Sprintf("url(#f%d)", i)
	}
	return i.line()
}

// An svg is a canvas that writes the elements of a picture in inks. (That of gonum writes colours.)
type svg struct {
	vg.Canvas // nil: a chart moves and scales nothing, and has no images
	out       bytes.Buffer
	height    vg.Length
	pen       pen
	pens      []pen // pushed
}

// A pen is the state of an svg.
type pen struct {
	ink    ink
	width  vg.Length
	dashes []vg.Length
	turn   float64 // of text, in degrees
}

func (s *svg) SetLineWidth(w vg.Length)                    { s.pen.width = w }
func (s *svg) SetLineDash(dashes []vg.Length, _ vg.Length) { s.pen.dashes = dashes }
func (s *svg) Rotate(rad float64)                          { s.pen.turn += rad * 180 / math.Pi }
func (s *svg) Push()                                       { s.pens = append(s.pens, s.pen) }

func (s *svg) Pop() {
	last := len(s.pens) - 1
	s.pen, s.pens = s.pens[last], s.pens[:last]
}

func (s *svg) SetColor(c color.Color) {
	s.pen.ink = inkText
	if i, is := c.(ink); is {
		s.pen.ink = i
	}
}

func (s *svg) Stroke(path vg.Path) {
	if s.pen.width <= 0 {
		return
	}
	fmt.Fprintf(&s.out, `<path d="%s" style="fill:none;stroke:%s;stroke-width:%.5g`, s.data(path), s.pen.ink.line(),
		s.pen.width.Points())
	for i, d := range s.pen.dashes {
		fmt.Fprintf(&s.out, "%s%.5g", []string{";stroke-dasharray:", ","}[min(i, 1)], d.Points())
	}
	s.out.WriteString(`"/>`)
}

func (s *svg) Fill(path vg.Path) {
	fmt.Fprintf(&s.out, `<path d="%s" style="fill:%s"/>`, s.data(path), s.pen.ink.area())
}

// y returns a height of a plot, which counts upwards, as a picture counts.
func (s *svg) y(at vg.Length) float64 { return (s.height - at).Points() }

func (s *svg) data(path vg.Path) string {
	var b strings.Builder
	for _, p := range path {
		x, y := p.Pos.X.Points(), s.y(p.Pos.Y)
		switch p.Type {
		case vg.MoveComp:
			fmt.Fprintf(&b, "M%.5g,%.5g", x, y)
		case vg.LineComp:
			fmt.Fprintf(&b, "L%.5g,%.5g", x, y)
		case vg.CloseComp:
			b.WriteByte('Z')
		}
	}
	return b.String()
}

func (s *svg) FillString(face font.Face, at vg.Point, text string) {
	turned := ""
	if s.pen.turn != 0 { // about the origin of the plot, which is below
		turned = fmt.Sprintf(` transform="rotate(%.5g 0 %.5g)"`, -s.pen.turn, s.height.Points())
	}
	fmt.Fprintf(&s.out, `<text x="%.5g" y="%.5g"%s style="font-size:%.5gpx;fill:%s">%s</text>`,
		at.X.Points(), s.y(at.Y), turned, face.Font.Size.Points(), s.pen.ink.line(), escape(text))
}

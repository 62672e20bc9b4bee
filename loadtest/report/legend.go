package report

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// An entry is a line of a legend.
type entry struct {
	name    string
	samples []plot.Thumbnailer
}

func (c *chart) explain(name string, samples ...plot.Thumbnailer) {
	c.legend = append(c.legend, entry{name, samples})
}

// drawLegend draws the legend in rows along the top, where it hides nothing, and returns the room below it. (The legend of a plot stands among the
// data.)
func (c *chart) drawLegend(area draw.Canvas) draw.Canvas {
	style := c.Legend.TextStyle
	row, gap, sample := vg.Points(c.size*1.45), vg.Points(14), vg.Points(24)
	x, y := area.Min.X+vg.Points(4), area.Max.Y-row
	for _, e := range c.legend {
		width := sample + vg.Points(5) + style.Width(e.name)
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
	if len(c.legend) == 0 {
		return area
	}
	return draw.Crop(area, 0, 0, 0, y-vg.Points(6)-area.Max.Y)
}

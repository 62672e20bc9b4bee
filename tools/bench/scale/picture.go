package main

import (
	"fmt"
	"math"
	"strings"
)

// The picture has two panels: what was measured here beside the model, and the model with more computers.
const (
	panelWidth, panelHeight = 400.0, 280.0
	leftMargin, topMargin   = 70.0, 56.0
	gap                     = 90.0
)

var colours = map[string]string{"mysql": "#1f6fb4", "redis": "#c0392b"}

// A panel maps figures to places.
type panel struct {
	*strings.Builder
	x, y       float64 // of its upper left corner
	across, up axis
}

// An axis goes from one value to another, in equal steps or in equal factors.
type axis struct {
	from, to float64
	factors  bool
}

func (a axis) at(v float64) float64 {
	if a.factors {
		return math.Log(v/a.from) / math.Log(a.to/a.from)
	}
	return (v - a.from) / (a.to - a.from)
}

func (p *panel) place(x, y float64) (float64, float64) {
	return p.x + p.across.at(x)*panelWidth, p.y + (1-p.up.at(y))*panelHeight
}

func (p *panel) words(x, y float64, anchor, colour, what string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="%s">%s</text>`+"\n", x, y, anchor, colour, what)
}

// frame draws the axes, with a line across for each of the values.
func (p *panel) frame(title, below string, across, up []float64) {
	p.words(p.x+panelWidth/2, p.y-14, "middle", "#111", title)
	p.words(p.x+panelWidth/2, p.y+panelHeight+40, "middle", "#444", below)
	for _, v := range across {
		x, y := p.place(v, p.up.from)
		fmt.Fprintf(p, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#999"/>`+"\n", x, y, x, y+5)
		p.words(x, y+20, "middle", "#444", fmt.Sprintf("%g", v))
	}
	for _, v := range up {
		x, y := p.place(p.across.from, v)
		fmt.Fprintf(p, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", x, y, x+panelWidth, y)
		p.words(x-8, y+4, "end", "#444", about(v))
	}
	fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="none" stroke="#999"/>`+"\n", p.x, p.y,
		panelWidth, panelHeight)
}

func (p *panel) line(colour, dashes string, points [][2]float64) {
	var list []string
	for _, at := range points {
		x, y := p.place(at[0], at[1])
		list = append(list, fmt.Sprintf("%.1f,%.1f", x, y))
	}
	fmt.Fprintf(p, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n",
		strings.Join(list, " "), colour, dashes)
}

func (p *panel) dot(colour string, x, y float64) {
	cx, cy := p.place(x, y)
	fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", cx, cy, colour)
}

// picture returns an SVG.
func (f *findings) picture(c *constants, l language) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" `+
		`font-size="13">`+"\n", leftMargin+2*panelWidth+gap+30, topMargin+panelHeight+100)
	b.WriteString("<!-- Made by go run ./scale -write from scale.json. Do not edit. -->\n")
	b.WriteString(`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	f.left(&b, l)
	f.right(&b, c, l)
	y := topMargin + panelHeight + 78
	key := &panel{Builder: &b}
	x := leftMargin
	for _, name := range []string{"mysql", "redis"} {
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2"/>`+"\n", x, y-4,
			x+28, y-4, colours[name])
		key.words(x+36, y, "start", "#111", "merged, "+titles[name])
		x += 170
	}
	key.words(x, y, "start", "#444", text{
		"dots: measured · lines: simulated · dashed: what one row can sell", "点：实测 · 实线：模拟 · 虚线：一行最多能卖",
	}.of(l))
	b.WriteString("</svg>\n")
	return b.String()
}

// left shows the runs with the most connections.
func (f *findings) left(b *strings.Builder, l language) {
	connections, top := 0, 0.0
	for _, c := range f.checks {
		connections = max(connections, c.Connections)
		top = max(top, c.Rate, c.model.rate)
	}
	step := math.Pow(10, math.Floor(math.Log10(top)))
	if top/step < 3 {
		step /= 2
	}
	up := axis{0, math.Ceil(top/step) * step, false}
	var lines, across []float64
	for v := step; v <= up.to; v += step {
		lines = append(lines, v)
	}
	for n := 1.0; n <= most; n++ {
		across = append(across, n)
	}
	p := &panel{b, leftMargin, topMargin, axis{0.5, most + 0.5, false}, up}
	p.frame(
		fmt.Sprintf(text{"Here: all on one computer, %d connections, sold/s", "本机：全部在一台计算机上，%d 连接，每秒售出"}.of(l),
			connections),
		text{"instances", "实例数"}.of(l), across, lines)
	for _, name := range []string{"mysql", "redis"} {
		var model [][2]float64
		for _, c := range f.checks {
			if c.store.Name == name && c.Connections == connections {
				model = append(model, [2]float64{float64(c.Instances), c.model.rate})
				p.dot(colours[name], float64(c.Instances), c.Rate)
			}
		}
		p.line(colours[name], "", model)
	}
}

// right shows the worlds.
func (f *findings) right(b *strings.Builder, c *constants, l language) {
	least, top := math.Inf(1), 0.0
	for _, w := range f.worlds {
		least, top = min(least, w.rate), max(top, w.rate, rowLimit(w.store.Costs, 0))
	}
	decade := func(v float64, round func(float64) float64) float64 { return math.Pow(10, round(math.Log10(v))) }
	up := axis{decade(least, math.Floor), decade(top, math.Ceil), true}
	var lines []float64
	for v := up.from; v <= up.to*1.01; v *= 10 {
		lines = append(lines, v)
		if v*3 < up.to {
			lines = append(lines, v*3)
		}
	}
	p := &panel{b, leftMargin + panelWidth + gap, topMargin, axis{1, 100, true}, up}
	p.frame(text{
		"One SKU, every part on computers of its own, sold/s", "同一 SKU，各部分都有自己的计算机，每秒售出",
	}.of(l), text{"instances", "实例数"}.of(l), []float64{1, 3, 10, 30, 100}, lines)
	for _, s := range c.Stores {
		var model [][2]float64
		for _, w := range f.worlds {
			if w.store == s {
				model = append(model, [2]float64{float64(w.instances), w.rate})
			}
		}
		p.line(colours[s.Name], "", model)
		limit := rowLimit(s.Costs, 0)
		p.line(colours[s.Name], "5 5", [][2]float64{{1, limit}, {100, limit}})
	}
}

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

// latencies are those of a run by outcome, in milliseconds, sorted.
type latencies map[loadtest.Outcome][]float64

func latenciesOf(r *loadtest.Result) latencies {
	l := make(latencies)
	for i := range r.Records {
		rec := &r.Records[i]
		l[rec.Outcome] = append(l[rec.Outcome], max(float64(rec.Latency().Nanoseconds())/1e6, 0.001))
	}
	for _, list := range l {
		slices.Sort(list)
	}
	return l
}

// outcomes are those that occurred, in the usual order.
func (l latencies) outcomes() []loadtest.Outcome {
	return slices.DeleteFunc(loadtest.Outcomes(), func(o loadtest.Outcome) bool { return len(l[o]) == 0 })
}

// at is a percentile of sorted values, by nearest rank.
func at(sorted []float64, percent float64) float64 {
	rank := int(math.Ceil(percent / 100 * float64(len(sorted))))
	return sorted[min(max(rank-1, 0), len(sorted)-1)]
}

// bins are the columns of the histogram.
const bins = 28

// A histogram counts replies by latency: columns whose edges grow by the same factor, and in each so many of every outcome.
type histogram struct {
	edges  []float64 // one more than columns
	counts map[loadtest.Outcome]plotter.Values
}

func (l latencies) histogram() *histogram {
	low, high := math.Inf(1), 0.0
	for _, list := range l {
		low, high = min(low, list[0]), max(high, list[len(list)-1])
	}
	if high < low*1.5 {
		low, high = low/1.3, low*1.5
	}
	h := &histogram{counts: make(map[loadtest.Outcome]plotter.Values)}
	factor := math.Pow(high/low, 1.0/bins)
	for i := range bins + 1 {
		h.edges = append(h.edges, low*math.Pow(factor, float64(i)))
	}
	for o, list := range l {
		columns := make(plotter.Values, bins)
		for _, ms := range list {
			columns[min(max(int(math.Log(ms/low)/math.Log(factor)), 0), bins-1)]++
		}
		h.counts[o] = columns
	}
	return h
}

// edgeTicks label the edges of columns, of which one is as wide as 1 on the axis.
type edgeTicks struct{ *histogram }

func (e edgeTicks) Ticks(_, _ float64) []plot.Tick {
	var list []plot.Tick
	low, high := e.edges[0], e.edges[bins]
	for _, tick := range (decades{}).Ticks(low, high) {
		tick.Value = math.Log(tick.Value/low)/math.Log(high/low)*bins - 0.5
		list = append(list, tick)
	}
	return list
}

// histogramChart draws h, the outcomes on top of each other.
func histogramChart(l latencies, h *histogram, mark func(ink) color.Color, size, width float64) *chart {
	p := newChart(mark, size)
	grid := plotter.NewGrid()
	grid.Horizontal, grid.Vertical = p.line(inkGrid, 0.6), draw.LineStyle{}
	p.Add(grid)
	var below *plotter.BarChart
	for _, o := range l.outcomes() {
		bars, err := plotter.NewBarChart(h.counts[o], vg.Points((width-70)/bins))
		if err != nil {
			continue
		}
		bars.Color, bars.LineStyle = mark(lookOf(o).ink), p.line(inkText, 0.4)
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.explain(words(o), bars)
	}
	p.X.Tick.Marker, p.Y.Tick.Marker = edgeTicks{h}, round{4, plainNumber}
	p.X.Min, p.X.Max, p.Y.Min = -0.6, bins-0.4, 0
	p.Y.Label.Text = "replies"
	return p
}

// hints say the numbers of each column.
func (h *histogram) hints(l latencies) []hint {
	var list []hint
	for i := range bins {
		text, any := fmt.Sprintf("%s to %s", millis(h.edges[i]), millis(h.edges[i+1])), false
		for _, o := range l.outcomes() {
			if n := h.counts[o][i]; n > 0 {
				text += fmt.Sprintf("\n%s: %.0f", words(o), n)
				any = true
			}
		}
		if any {
			list = append(list, hint{float64(i) - 0.5, float64(i) + 0.5, text})
		}
	}
	return list
}

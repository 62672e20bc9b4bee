package report

import (
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"

	"example.com/stock/loadtest"
)

// intervals is the number of parts into which the run of an open loop is divided.
const intervals = 60

// An interval is a part of the run of an open loop.
type interval struct {
	due, sent int       // requests
	latencies []float64 // of the requests that were due in it, in milliseconds, sorted
	inFlight  int       // at its end
}

// intervalsOf divides the run of an open loop, by when requests were due. It returns nil for a closed loop.
func intervalsOf(r *loadtest.Result, s *story) []interval {
	if !r.Plan.Open() || s.length <= 0 || len(r.Records) == 0 {
		return nil
	}
	list := make([]interval, intervals)
	at := func(ms float64) int { return min(max(int(ms/s.length*intervals), 0), intervals-1) }
	for i := range r.Records {
		rec := &r.Records[i]
		planned, sent, done := s.ms(rec.PlannedAt), s.ms(rec.SentAt), s.ms(rec.DoneAt)
		if rec.PlannedAt.IsZero() {
			planned = sent
		}
		list[at(planned)].due++
		list[at(sent)].sent++
		list[at(planned)].latencies = append(list[at(planned)].latencies, done-planned)
		for k := at(sent); k < at(done); k++ {
			list[k].inFlight++
		}
	}
	for i := range list {
		slices.Sort(list[i].latencies)
	}
	return list
}

// overTime draws rate, latency and requests in flight over the run of an open loop. They rise where the service does
// not keep up.
func (v *runView) overTime() {
	list := intervalsOf(v.R, v.T.story)
	if list == nil {
		return
	}
	width := v.T.story.length / intervals
	draw := func(caption, unit string, lines ...namedLine) {
		c := newChart(10.5)
		c.Y.Min, c.X.Min = 0, 0
		for _, l := range lines {
			var xy plotter.XYs
			for i := range list {
				if y := l.of(&list[i]); !math.IsNaN(y) {
					xy = append(xy, plotter.XY{X: (float64(i) + 0.5) * width, Y: y})
				}
			}
			line, err := plotter.NewLine(xy)
			if err != nil {
				continue
			}
			line.LineStyle = c.line(l.ink, 1.6, l.dashes...)
			c.Add(line)
			c.explain(l.name, line)
		}
		c.X.Max, c.Y.Max = v.T.story.length, max(c.Y.Max*1.06, 1)
		c.X.Tick.Marker, c.Y.Tick.Marker = round{4, axisLabel}, round{4, plainNumber}
		c.Y.Label.Text = unit
		c.markCommands(v.voice, startsOf(v.R.Ran, v.T.story.start))
		v.OverTime = append(v.OverTime, c.toSVG(360, 230, "", caption, nil))
	}
	perSecond := func(n int) float64 { return float64(n) / width * 1000 }
	quantile := func(percent float64) func(*interval) float64 {
		return func(x *interval) float64 {
			if len(x.latencies) == 0 {
				return math.NaN()
			}
			return at(x.latencies, percent)
		}
	}
	draw(v.say("caption.rate"), v.say("metric.request-rate"),
		namedLine{
			v.say("chart.due"), inkSoldOut, []float64{4, 3}, func(x *interval) float64 { return perSecond(x.due) },
		},
		namedLine{v.say("chart.sent"), inkAccepted, nil, func(x *interval) float64 { return perSecond(x.sent) }})
	draw(v.say("caption.latency"), "ms", namedLine{"p50", inkAccepted, nil, quantile(50)},
		namedLine{"p99", inkFailed, []float64{4, 3}, quantile(99)})
	draw(v.say("caption.in-flight"), v.say("label.replies-pending"),
		namedLine{v.say("chart.in-flight"), inkRead, nil, func(x *interval) float64 { return float64(x.inFlight) }})
}

// A namedLine is a figure of each interval.
type namedLine struct {
	name   string
	ink    ink
	dashes []float64
	of     func(*interval) float64
}

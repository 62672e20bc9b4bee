package report

import (
	"math"
	"slices"

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
	// course returns a figure of each interval that has one.
	course := func(of func(*interval) float64) (line []moment) {
		for i := range list {
			if y := of(&list[i]); !math.IsNaN(y) {
				line = append(line, moment{float64(i) * width, y})
			}
		}
		if n := len(line); n > 0 {
			line = append(line, moment{line[n-1].ms + width, line[n-1].units})
		}
		return line
	}
	draw := func(caption, unit string, lines ...layer) {
		c := &chart{
			frame: newFrame(), unit: unit, caption: caption, height: 170, layers: lines,
			commands: startsOf(v.R.Ran, v.T.story.start),
		}
		c.hold([]moment{{0, 0}, {v.T.story.length, 1}})
		for _, l := range lines {
			c.hold(l.line)
		}
		v.OverTime = append(v.OverTime, c.draw(v.voice))
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
		layer{look: "due", name: v.say("chart.due"), line: course(func(x *interval) float64 {
			return perSecond(x.due)
		})},
		layer{look: "sent", name: v.say("chart.sent"), line: course(func(x *interval) float64 {
			return perSecond(x.sent)
		})})
	draw(v.say("caption.latency"), "ms", layer{look: "median", name: "p50", line: course(quantile(50))},
		layer{look: "tail", name: "p99", line: course(quantile(99))})
	draw(v.say("caption.in-flight"), v.say("label.replies-pending"), layer{
		look: "in-flight", name: v.say("chart.in-flight"),
		line: course(func(x *interval) float64 { return float64(x.inFlight) }),
	})
}

// at returns a percentile of sorted values, by nearest rank.
func at(sorted []float64, percent float64) float64 {
	rank := int(math.Ceil(percent / 100 * float64(len(sorted))))
	return sorted[min(max(rank-1, 0), len(sorted)-1)]
}

package loadtest

import "strings"

// A figure is a number of a run that a Threshold can name.
type figure struct {
	name     string
	unit     unit
	requests bool                                        // counts requests, so a percentage makes sense
	damage   bool                                        // counts damage, of which there may be more than is known
	value    func(r *Result) (value float64, known bool) // not known: there is no evidence at all
}

// figures are all there are, in the order in which errors list them.
func figures() []figure {
	requests := func(name string, of func(*Result) int) figure {
		return figure{name: name, requests: true, value: func(r *Result) (float64, bool) { return float64(of(r)), true }}
	}
	damage := func(name string, of func(*Verdict) int64) figure {
		return figure{name: name, damage: true, value: func(r *Result) (float64, bool) { return float64(of(&r.Verdict)), true }}
	}
	latency := func(name string, of func(*Quantiles) float64) figure {
		return figure{name: name, unit: timed, value: func(r *Result) (float64, bool) {
			return of(&r.Latency.All), r.Latency.All.Count > 0
		}}
	}
	accepted := func(name string, of func(*Quantiles) float64) figure {
		return figure{name: name, unit: timed, value: func(r *Result) (float64, bool) {
			q := r.Latency.Accepted()
			return of(&q), q.Count > 0
		}}
	}
	sight := func(name string, of func(*Verdict) int) figure {
		return figure{name: name, damage: true, value: func(r *Result) (float64, bool) { return float64(of(&r.Verdict)), r.seen() }}
	}
	return []figure{
		damage("oversold", func(v *Verdict) int64 { return v.OversoldUnits }),
		{name: "lost_updates", damage: true, value: func(r *Result) (float64, bool) { return float64(r.Verdict.LostUnits), r.Verdict.Known }},
		sight("collisions", func(v *Verdict) int { return v.Collisions }),
		sight("stale_reads", func(v *Verdict) int { return v.StaleReads }),
		damage("false_sold_out", func(v *Verdict) int64 { return int64(v.FalseSoldOut) }),
		damage("fence_drops", func(v *Verdict) int64 { return int64(v.FenceDrops) }),
		damage("phantoms", func(v *Verdict) int64 { return int64(v.Phantoms) }),
		damage("denied", func(v *Verdict) int64 { return int64(v.Denied) }),
		damage("duplicates", func(v *Verdict) int64 { return int64(v.Duplicates) }),
		{name: "remaining", value: func(r *Result) (float64, bool) { return float64(r.Verdict.RemainingUnits), r.Verdict.Known }},
		requests("sent", func(r *Result) int { return r.Verdict.Sent }),
		requests("accepted", func(r *Result) int { return r.Verdict.Accepted }),
		requests("busy", func(r *Result) int { return r.Verdict.Busy }),
		requests("sold_out", func(r *Result) int { return r.Verdict.SoldOut }),
		requests("failed", func(r *Result) int { return r.Verdict.Failed }),
		requests("unknown", func(r *Result) int { return r.Verdict.Unknown }),
		requests("late", func(r *Result) int { return r.Latency.Late }),
		requests("dropped", func(r *Result) int { return r.Dropped }),
		latency("mean", func(q *Quantiles) float64 { return q.Mean }),
		latency("p50", func(q *Quantiles) float64 { return q.P50 }),
		latency("p90", func(q *Quantiles) float64 { return q.P90 }),
		latency("p95", func(q *Quantiles) float64 { return q.P95 }),
		latency("p99", func(q *Quantiles) float64 { return q.P99 }),
		latency("p99.9", func(q *Quantiles) float64 { return q.P999 }),
		latency("max", func(q *Quantiles) float64 { return q.Max }),
		{name: "sold_rate", unit: rated, value: func(r *Result) (float64, bool) { return r.Latency.Sold, r.Latency.All.Count > 0 }},
		accepted("sold_p50", func(q *Quantiles) float64 { return q.P50 }),
		accepted("sold_p99", func(q *Quantiles) float64 { return q.P99 }),
		{name: "rate", unit: rated, value: func(r *Result) (float64, bool) { return r.Latency.Rate, r.Latency.All.Count > 0 }},
		{name: "linearizable", unit: decided, value: func(r *Result) (float64, bool) {
			result := r.Verdict.Linear.Result
			if result == InOrder {
				return 1, true
			}
			return 0, result == Illegal
		}},
	}
}

func findFigure(name string) *figure {
	for _, f := range figures() {
		if f.name == name {
			return &f
		}
	}
	return nil
}

func figureNames() string {
	var list []string
	for _, f := range figures() {
		list = append(list, f.name)
	}
	return strings.Join(list, ", ")
}

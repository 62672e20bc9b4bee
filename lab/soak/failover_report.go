package soak

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
	"example.com/stock/loadtest/checkout"
)

// A FailOverReport has the faults and the findings of FailOver.
type FailOverReport struct {
	Version   int       `json:"version"`
	Short     bool      `json:"short"`
	Rate      int       `json:"rate"` // requests for each strategy in a second
	StartedAt time.Time `json:"started_at"`
	Faults    []Outage  `json:"faults"`
	Lanes     []Sold    `json:"lanes"` // the last one is the shop
}

// An Outage is one thing that failed, from its begin until everything sold again and was fixed.
type Outage struct {
	Name   string     `json:"name"`
	Server string     `json:"server"` // mariadb, redis, zookeeper, instances, all
	Text   words.Text `json:"text"`
	TookMS float64    `json:"took_ms"`
	Gaps   []Gap      `json:"gaps"` // of each lane

	began, ended time.Time
}

// A Gap is what one lane had of a fault.
type Gap struct {
	LongestMS float64 `json:"longest_ms"` // between two acknowledged sales
	Requests  int     `json:"requests"`
	Failed    int     `json:"failed"`  // answered with an error: nothing was sold
	Unknown   int     `json:"unknown"` // no usable reply: it may have sold
	Lost      int     `json:"lost"`    // acknowledged, and no order of it is in the store
	// Problems count what was replied to the failed and the unknown.
	Problems map[string]int `json:"problems"`
}

// A Sold is the verdict on one strategy on one store, or on the shop.
type Sold struct {
	Name     string           `json:"name"`
	Accepted int              `json:"accepted"` // sales, or orders of the shop
	Found    int              `json:"found"`    // sales without a usable reply whose orders are in the store
	Lost     int              `json:"lost"`     // acknowledged, and no order of it is in the store
	Oversold int64            `json:"oversold_units"`
	Finding  loadtest.Finding `json:"finding"`
	Sentence words.Text       `json:"sentence"`
	Wrong    []words.Text     `json:"wrong,omitempty"` // what must not be
}

// checkoutLane is the name of the shop in reports. Its store is MySQL.
const checkoutLane = "checkout"

// judge completes the report when the sale is over.
func (r *failOver) judge(ctx context.Context) error {
	result, err := r.shopping.Judge(ctx)
	if err != nil {
		return err
	}
	attempts := make([][]attempt, 0, len(r.lanes)+1)
	select {
	case err := <-r.failed:
		return err
	default:
	}
	for i, l := range r.lanes {
		list := attemptsOf(r.results[i])
		attempts = append(attempts, list)
		r.report.Lanes = append(r.report.Lanes, r.laneOf(l, &r.results[i].Verdict, list))
	}
	attempts = append(attempts, visits(result.Evidence.Records))
	r.report.Lanes = append(r.report.Lanes, shopOf(result))
	for i := range r.report.Faults {
		f := &r.report.Faults[i]
		f.TookMS = ms(f.ended.Sub(f.began))
		for _, list := range attempts {
			f.Gaps = append(f.Gaps, during(list, f.began, f.ended))
		}
	}
	return nil
}

// ofRedis reports whether the fault may cost Redis what it has acknowledged.
func (f *Outage) ofRedis() bool { return f.Server == redis || f.Server == everything }

// laneOf returns the verdict on a lane. A fail-over of Redis may lose acknowledged sales, and then the stock has their
// units again: that is said, and is not wrong. All else is.
func (r *failOver) laneOf(l *lane, v *loadtest.Verdict, list []attempt) Sold {
	out := Sold{
		Name: l.name(), Accepted: v.Accepted, Found: v.Recovered, Oversold: v.OversoldUnits, Finding: v.Finding,
		Sentence: v.Sentence,
	}
	excused := 0
	for _, a := range list {
		if !a.lost {
			continue
		}
		out.Lost++
		for i := range r.report.Faults {
			f := &r.report.Faults[i]
			// The master that takes over may lack what was acknowledged a moment before the fault.
			if l.store == redis && f.ofRedis() && a.done.After(f.began.Add(-calm)) &&
				a.done.Before(f.ended) {
				excused++
				break
			}
		}
	}
	lostOnly := out.Lost > 0 && out.Lost == excused && v.Phantoms == out.Lost && v.LostUnits == int64(out.Lost) &&
		v.Duplicates == 0 && v.OversoldUnits == 0
	switch {
	case lostOnly:
		out.Sentence = say("outage-report.lost-only", "n", out.Lost)
	case v.Finding != loadtest.Holds:
		for _, reason := range v.Reasons {
			out.Wrong = append(out.Wrong, reason.Text)
		}
		if len(out.Wrong) == 0 {
			out.Wrong = []words.Text{v.Sentence}
		}
	}
	return out
}

func shopOf(result *checkout.Result) Sold {
	v := &result.Verdict
	out := Sold{Name: checkoutLane, Accepted: result.Figures.Orders, Finding: v.Finding, Sentence: v.Sentence}
	for _, c := range v.Checks {
		out.Wrong = append(out.Wrong, c.Examples...)
	}
	if v.Finding != loadtest.Holds && len(out.Wrong) == 0 {
		out.Wrong = []words.Text{v.Sentence}
	}
	return out
}

// Violations describes what must not be: a sale that was lost or made twice, except what Redis may lose, and requests
// that failed while the instances were restarted. One without a reply is allowed: it may arrive on a connection at the
// moment when the instance closes its listener, and the kernel then resets the connection.
func (r *FailOverReport) Violations() (list []words.Text) {
	for _, l := range r.Lanes {
		for _, text := range l.Wrong {
			list = append(list, say("violation.lane", "lane", l.Name, "why", text))
		}
	}
	for i := range r.Faults {
		f := &r.Faults[i]
		for n, g := range f.Gaps {
			if f.Server == instances && (g.Failed > 0 || g.Unknown > 1) {
				list = append(list, say("violation.restart", "lane", r.Lanes[n].Name, "failed", g.Failed,
					"unknown", g.Unknown, "problems", fmt.Sprint(g.Problems)))
			}
		}
	}
	return list
}

func (f *Outage) said() words.Text { return say("outage." + f.Name) }

func seconds(ms float64) string { return fmt.Sprintf("%.1f", ms/1000) }

// FailOver writes a report: a table of the faults, and the verdicts. The tables are Markdown.
func (w Writer) FailOver(r *FailOverReport) {
	w.line("outage-report.faults", "rate", r.Rate)
	heads := []string{say("outage-report.fault").In(w.Lang)}
	for _, l := range r.Lanes {
		heads = append(heads, l.Name)
	}
	rows := [][]string{append(heads, strings.Split(say("outage-report.counts").In(w.Lang), "|")...)}
	for i := range r.Faults {
		f := &r.Faults[i]
		row := []string{f.said().In(w.Lang)}
		for _, g := range f.Gaps {
			row = append(row, seconds(g.LongestMS))
		}
		var sum Gap
		for _, g := range f.Gaps {
			sum.Failed, sum.Unknown, sum.Lost = sum.Failed+g.Failed, sum.Unknown+g.Unknown, sum.Lost+g.Lost
		}
		rows = append(rows, append(row, fmt.Sprint(sum.Failed), fmt.Sprint(sum.Unknown), fmt.Sprint(sum.Lost)))
	}
	w.table(rows)

	w.line("outage-report.verdicts")
	rows = [][]string{strings.Split(say("outage-report.heads").In(w.Lang), "|")}
	for _, l := range r.Lanes {
		rows = append(rows, []string{
			l.Name, fmt.Sprint(l.Accepted), fmt.Sprint(l.Found), fmt.Sprint(l.Lost), fmt.Sprint(l.Oversold),
			l.Sentence.In(w.Lang),
		})
	}
	w.table(rows)

	violations := r.Violations()
	if len(violations) == 0 {
		w.line("outage-report.holds")
		return
	}
	w.line("outage-report.violated")
	w.list(violations)
}

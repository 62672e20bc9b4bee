package report

import (
	"fmt"

	"example.com/stock/loadtest"
)

// A compareView is the data of the template of runs side by side.
type compareView struct {
	Rows []compareRow
	Woke bool // whether any run has wake-ups
}

type compareRow struct {
	Strategy, Store, Word, Class                                            string
	Accepted, Busy, Oversold, Lost, Sold, P50, P99, Rate, Jain, Wait, Woken string
	SoldBar, P99Bar                                                         float64 // percent of the largest
	Oversell, Hurt                                                          bool
}

func newCompareView(say voice, runs []*loadtest.Result) *compareView {
	v := new(compareView)
	var fastest, slowest float64
	for _, r := range runs {
		fastest, slowest = max(fastest, r.Latency.Sold), max(slowest, r.Latency.Accepted().P99)
	}
	for _, r := range runs {
		j := &r.Verdict
		row := compareRow{
			Strategy: r.Plan.Strategy,
			Store:    r.Plan.Store,
			Accepted: thousands(int64(j.Accepted)),
			Busy:     fmt.Sprintf("%.0f %%", 100*float64(j.Busy)/float64(max(j.Sent, 1))),
			Oversold: thousands(j.OversoldUnits),
			Lost:     "?",
			Rate:     fmt.Sprintf("%.0f", r.Latency.Rate),
			Sold:     "–",
			P50:      "–",
			P99:      "–",
			Jain:     evenness(r),
			Wait:     "–",
			Woken:    "–",
			Oversell: j.OversoldUnits > 0,
			Hurt:     j.Known && j.LostUnits != 0,
		}
		if q := r.Latency.Accepted(); q.Count > 0 {
			row.Sold, row.P50, row.P99 = fmt.Sprintf("%.0f", r.Latency.Sold), millis(q.P50), millis(q.P99)
			row.SoldBar, row.P99Bar = 100*r.Latency.Sold/max(fastest, 1e-9), 100*q.P99/max(slowest, 1e-9)
		}
		row.Word, row.Class, _ = say.judged(r)
		if row.Class == "raced" {
			row.Word = say.say("judged.expected")
		}
		if j.Known {
			row.Lost = thousands(j.LostUnits)
		}
		if ms := loadtest.FairnessOf(r).LongestWaitMS; ms > 0 {
			row.Wait = millis(ms)
		}
		if n := r.WakeUps(); n > 0 {
			row.Woken, v.Woke = fmt.Sprintf("%.1f", n), true
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

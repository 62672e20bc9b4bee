package report

import "example.com/stock/loadtest"

// A compareView is the data of the template of runs side by side.
type compareView struct {
	Rows []compareRow
	Woke bool // whether any run has wake-ups
}

type compareRow struct {
	R               *loadtest.Result
	V               *loadtest.Verdict
	Q               loadtest.Quantiles // of the accepted requests
	Word, Class     string
	Jain            string
	Wait            float64 // the longest, in ms; 0: it is not known
	Busy            float64 // percent of the requests
	SoldBar, P99Bar float64 // percent of the largest
}

func newCompareView(say voice, runs []*loadtest.Result) *compareView {
	v := new(compareView)
	var fastest, slowest float64
	for _, r := range runs {
		fastest, slowest = max(fastest, r.Latency.Sold), max(slowest, r.Latency.Accepted().P99)
	}
	for _, r := range runs {
		row := compareRow{
			R: r, V: &r.Verdict, Q: r.Latency.Accepted(), Jain: evenness(r), Wait: r.Fairness.LongestWaitMS,
			Busy: 100 * float64(r.Verdict.Busy) / float64(max(r.Verdict.Sent, 1)),
		}
		if row.Q.Count > 0 {
			row.SoldBar, row.P99Bar = 100*r.Latency.Sold/max(fastest, 1e-9), 100*row.Q.P99/max(slowest, 1e-9)
		}
		row.Word, row.Class, _ = say.judged(r)
		if row.Class == "raced" {
			row.Word = say.say("judged.expected")
		}
		v.Woke = v.Woke || r.WakeUps() > 0
		v.Rows = append(v.Rows, row)
	}
	return v
}

package report

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"

	"example.com/stock/loadtest"
)

// jtlHead are the columns that JMeter writes by default (jmeter.save.saveservice), in its order, so that every listener opens the file.
func jtlHead() []string {
	return []string{
		"timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName", "dataType", "success", "failureMessage", "bytes", "sentBytes",
		"grpThreads", "allThreads", "URL", "Latency", "IdleTime", "Connect",
	}
}

// WriteJTL writes a line per request as JMeter's "Simple Data Writer" does, for its listeners and its dashboard (jmeter -g FILE -o FOLDER),
// from JMeter 3.1 on: older ones do not know sentBytes.
//
// Busy and sold out are answers: they count as success, or every error rate would be wrong. The label is the strategy and the outcome, so
// that a summary tells them apart. JMeter knows whole milliseconds. Bytes are not known, and 0.
func WriteJTL(w io.Writer, runs []*loadtest.Result) error {
	out := csv.NewWriter(w)
	_ = out.Write(jtlHead()) // its error stays, and Error returns it
	for _, r := range runs {
		records := slices.Clone(r.Records) // JMeter writes when a reply has come
		slices.SortStableFunc(records, func(a, b loadtest.Record) int { return a.DoneAt.Compare(b.DoneAt) })
		threads := strconv.Itoa(cmp.Or(r.Plan.Concurrency, r.Plan.MaxInFlight))
		for i := range records {
			rec := &records[i]
			ok := rec.Outcome == loadtest.Accepted || rec.Outcome == loadtest.Busy || rec.Outcome == loadtest.SoldOut
			code, failure := blank(rec.Status), ""
			if code == "" {
				code = "Non HTTP response code: " + string(rec.Outcome)
			}
			if !ok {
				failure = cmp.Or(rec.Error, rec.Problem, string(rec.Outcome))
			}
			begin := rec.DoneAt.Add(-rec.Latency())
			elapsed := strconv.FormatInt(rec.DoneAt.UnixMilli()-begin.UnixMilli(), 10)
			_ = out.Write([]string{
				strconv.FormatInt(begin.UnixMilli(), 10), elapsed, rec.Strategy + " " + words(rec.Outcome), code, cmp.Or(rec.Problem, words(rec.Outcome)),
				rec.Strategy + " 1-" + strconv.Itoa(rec.Worker), "text", strconv.FormatBool(ok), failure, "0", "0", threads, threads,
				r.Target + r.Strategy.Endpoint, elapsed, "0", "0",
			})
		}
	}
	out.Flush()
	return out.Error()
}

package report

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/loadtest"
)

// csvHead returns the columns of WriteCSV. Times are RFC 3339 with nanoseconds. Unknown values are empty.
func csvHead() []string {
	return []string{
		"run",
		"strategy",
		"store",
		"sku",
		"seq",
		"worker",
		"request_id",
		"quantity",
		"planned_at",
		"sent_at",
		"done_at",
		"latency_ms",
		"outcome",
		"status",
		"problem",
		"order_id",
		"instance",
		"read",
		"remaining",
		"version",
		"epoch",
		"fence",
		"segment",
		"tries",
		"waited_ms",
		"held_ms",
		"acquired_at",
		"released_at",
		"lease_lost",
		"error",
		"batch",
		"batch_place",
		"batch_size",
	}
}

// WriteCSV writes a line for each request, for spreadsheets and statistics.
func WriteCSV(w io.Writer, runs []*loadtest.Result) error {
	out := csv.NewWriter(w)
	_ = out.Write(csvHead()) // its error stays, and Error returns it
	for _, r := range runs {
		for i := range r.Records {
			rec := &r.Records[i]
			line := []string{
				r.Run,
				rec.Strategy,
				rec.Store,
				rec.SKU,
				strconv.Itoa(rec.Seq),
				strconv.Itoa(rec.Worker),
				rec.RequestID,
				number(rec.Quantity),
				moments(rec.PlannedAt),
				moments(rec.SentAt),
				moments(rec.DoneAt),
				decimal(float64(rec.Latency()) / float64(time.Millisecond)),
				string(rec.Outcome),
				blank(rec.Status),
				rec.Problem,
				rec.OrderID,
				rec.Instance,
			}
			line = append(append(line, receipt(rec)...), rec.Error)
			_ = out.Write(append(line, inBatch(rec)...))
		}
	}
	out.Flush()
	return out.Error()
}

// receipt returns the columns that only an accepted request has.
func receipt(rec *loadtest.Record) []string {
	if rec.Receipt == nil {
		return make([]string, 12)
	}
	cells := []string{number(rec.Read), number(rec.Remaining), number(rec.Version), number(rec.Epoch)}
	if rec.Blind {
		cells = make([]string, 4)
	}
	return append(cells, blank(rec.Fence), blank(rec.Segment), blank(rec.Tries), decimal(rec.WaitedMS),
		decimal(rec.HeldMS), moments(rec.AcquiredAt), moments(rec.ReleasedAt), strconv.FormatBool(rec.LeaseLost))
}

// inBatch returns the columns about the batch that a sale was made in.
func inBatch(rec *loadtest.Record) []string {
	if rec.Receipt == nil || rec.Batch == nil {
		return make([]string, 3)
	}
	return []string{rec.Batch.ID, number(rec.Batch.Place), number(rec.Batch.Size)}
}

func number[N int | int64 | uint64](n N) string { return fmt.Sprint(n) }

// blank returns n, or "" if it is 0.
func blank[N int | int64 | uint64](n N) string {
	if n == 0 {
		return ""
	}
	return number(n)
}

func decimal(x float64) string { return strconv.FormatFloat(x, 'f', 3, 64) }

func moments(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}

// jtlHead returns the columns that JMeter writes by default (jmeter.save.saveservice), in its order, so that every
// listener opens the file.
func jtlHead() []string {
	return []string{
		"timeStamp",
		"elapsed",
		"label",
		"responseCode",
		"responseMessage",
		"threadName",
		"dataType",
		"success",
		"failureMessage",
		"bytes",
		"sentBytes",
		"grpThreads",
		"allThreads",
		"URL",
		"Latency",
		"IdleTime",
		"Connect",
	}
}

// WriteJTL writes a line for each request in the format of JMeter's "Simple Data Writer", for its listeners and its
// dashboard (jmeter -g FILE -o FOLDER), from JMeter 3.1 on: older versions do not know sentBytes.
//
// Busy and sold out count as success, because an error rate that included them would be wrong. The label is the
// strategy with the outcome, so that a summary distinguishes them. JMeter has whole milliseconds. Bytes are not known,
// and 0.
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
				strconv.FormatInt(begin.UnixMilli(), 10),
				elapsed,
				rec.Strategy + " " + words(rec.Outcome),
				code,
				cmp.Or(rec.Problem, words(rec.Outcome)),
				rec.Strategy + " 1-" + strconv.Itoa(rec.Worker),
				"text",
				strconv.FormatBool(ok),
				failure,
				"0",
				"0",
				threads,
				threads,
				r.Target + r.Strategy.Endpoint,
				elapsed,
				"0",
				"0",
			})
		}
	}
	out.Flush()
	return out.Error()
}

// A summary is the verdict on several runs.
type summary struct {
	Word, Class string
	Lines       []string
}

func (p Page) summary() *summary {
	var runs []*loadtest.Result
	for _, g := range p.Groups {
		runs = append(runs, g.Runs...)
	}
	var raced, wrong, open, lucky []string
	kept := 0
	for _, r := range runs {
		v, name := &r.Verdict, heading(r)
		switch {
		case v.Finding == loadtest.Broken && v.Kept:
			raced = append(raced, name)
			kept++
		case v.Finding == loadtest.Broken:
			wrong = append(wrong, name)
		case !v.Kept || v.Finding == loadtest.Undecided:
			open = append(open, name)
		default:
			kept++
			if v.Luck {
				lucky = append(lucky, name)
			}
		}
	}
	s := &summary{Word: "All as promised", Class: "good"}
	line := func(list []string, format string) {
		if len(list) > 0 {
			s.Lines = append(s.Lines, fmt.Sprintf(format, len(list), names(list)))
		}
	}
	switch {
	case len(wrong) > 0:
		s.Word, s.Class = "A promise was broken", "bad"
	case len(open) > 0:
		s.Word, s.Class = "Not all is decided", "odd"
	}
	s.Lines = append(s.Lines, fmt.Sprintf("%d of %s were as promised.", kept, count(len(runs), "run")))
	line(wrong, "%d lost stock although they promise not to: %s.")
	line(raced, "%d lost stock, as was to be expected of what promises no exclusion: %s.")
	line(lucky, "%d lost nothing by luck: %s.")
	line(open, "%d could not be decided: %s.")
	return s
}

// names lists each name once, with its count if that is above 1.
func names(list []string) string {
	var parts []string
	for i, name := range list {
		if slices.Index(list, name) < i {
			continue
		}
		n := 0
		for _, other := range list {
			if other == name {
				n++
			}
		}
		if n > 1 {
			name += fmt.Sprintf(" (%d times)", n)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, ", ")
}

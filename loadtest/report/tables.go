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
		"read_at",
		"written_at",
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
	_ = out.Write(csvHead()) // Error returns its error
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
		return make([]string, 14)
	}
	cells := []string{number(rec.Read), number(rec.Remaining), number(rec.Version), number(rec.Epoch)}
	if rec.Blind {
		cells = make([]string, 4)
	}
	return append(cells, blank(rec.Fence), blank(rec.Segment), blank(rec.Tries), decimal(rec.WaitedMS),
		decimal(rec.HeldMS), moments(rec.AcquiredAt), moments(rec.ReadAt), moments(rec.WrittenAt),
		moments(rec.ReleasedAt), strconv.FormatBool(rec.LeaseLost))
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
// strategy with the outcome, so that a summary distinguishes them. JMeter has whole milliseconds. Bytes are unknown,
// and written as 0.
func WriteJTL(w io.Writer, runs []*loadtest.Result) error {
	out := csv.NewWriter(w)
	_ = out.Write(jtlHead()) // Error returns its error
	for _, r := range runs {
		records := slices.Clone(r.Records) // JMeter writes in order of the replies
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
				rec.Strategy + " " + spaced(rec.Outcome),
				code,
				cmp.Or(rec.Problem, spaced(rec.Outcome)),
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
	v := voice(p.Lang)
	kept := 0
	var oversold, lost int64
	for _, r := range runs {
		verdict, name := &r.Verdict, v.in(named(r))
		switch {
		case verdict.Finding == loadtest.Broken && verdict.Kept:
			raced = append(raced, name)
			oversold, lost = oversold+verdict.OversoldUnits, lost+max(verdict.LostUnits, 0)
			kept++
		case verdict.Finding == loadtest.Broken:
			wrong = append(wrong, name)
		case !verdict.Kept || verdict.Finding == loadtest.Undecided:
			open = append(open, name)
		default:
			kept++
			if verdict.Luck {
				lucky = append(lucky, name)
			}
		}
	}
	s := &summary{Word: v.say("summary.kept"), Class: "good"}
	line := func(list []string, key string) {
		if len(list) > 0 {
			s.Lines = append(s.Lines, phrases.Say("summary."+key, "n", len(list), "names", v.names(list)).In(p.Lang))
		}
	}
	switch {
	case len(wrong) > 0:
		s.Word, s.Class = v.say("summary.broken"), "bad"
	case len(open) > 0:
		s.Word, s.Class = v.say("summary.open"), "odd"
	case len(raced) > 0:
		s.Word = v.say("summary.kept-raced", "oversold", thousands(oversold), "lost", thousands(lost))
		s.Class = "raced"
	}
	s.Lines = append(s.Lines, v.say("summary.of", "kept", kept, "runs", v.count("run", int64(len(runs)))))
	line(wrong, "lost")
	line(raced, "raced")
	line(lucky, "lucky")
	line(open, "undecided")
	return s
}

// names lists each name once, with its count if that is above 1.
func (v voice) names(list []string) string {
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
			name = v.say("summary.times", "run", name, "n", n)
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, v.say("comma"))
}

// spaced returns an outcome in words, for programs that show it.
func spaced(o loadtest.Outcome) string { return strings.ReplaceAll(string(o), "_", " ") }

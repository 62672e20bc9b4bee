package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"time"

	"example.com/stock/loadtest"
)

// csvHead are the columns of WriteCSV. Times are RFC 3339 with nanoseconds; what is not known is empty.
func csvHead() []string {
	return []string{
		"run", "strategy", "store", "sku", "seq", "worker", "request_id", "quantity", "planned_at", "sent_at", "done_at", "latency_ms", "outcome", "status",
		"problem", "order_id", "instance", "read", "remaining", "version", "epoch", "fence", "segment", "tries", "waited_ms", "held_ms", "acquired_at",
		"released_at", "lease_lost", "error",
	}
}

// WriteCSV writes a line per request, for spreadsheets and statistics.
func WriteCSV(w io.Writer, runs []*loadtest.Result) error {
	out := csv.NewWriter(w)
	_ = out.Write(csvHead()) // its error stays, and Error returns it
	for _, r := range runs {
		for i := range r.Records {
			rec := &r.Records[i]
			line := []string{
				r.Run, rec.Strategy, rec.Store, rec.SKU, strconv.Itoa(rec.Seq), strconv.Itoa(rec.Worker), rec.RequestID, number(rec.Quantity),
				moments(rec.PlannedAt), moments(rec.SentAt), moments(rec.DoneAt), decimal(float64(rec.Latency()) / float64(time.Millisecond)),
				string(rec.Outcome), blank(rec.Status), rec.Problem, rec.OrderID, rec.Instance,
			}
			_ = out.Write(append(append(line, receipt(rec)...), rec.Error))
		}
	}
	out.Flush()
	return out.Error()
}

// receipt are the columns that only an accepted request has.
func receipt(rec *loadtest.Record) []string {
	if rec.Receipt == nil {
		return make([]string, 12)
	}
	cells := []string{number(rec.Read), number(rec.Remaining), number(rec.Version), number(rec.Epoch)}
	if rec.Blind {
		cells = make([]string, 4)
	}
	return append(cells, blank(rec.Fence), blank(rec.Segment), blank(rec.Tries), decimal(rec.WaitedMS), decimal(rec.HeldMS),
		moments(rec.AcquiredAt), moments(rec.ReleasedAt), strconv.FormatBool(rec.LeaseLost))
}

func number[N int | int64 | uint64](n N) string { return fmt.Sprint(n) }

// blank is n, or nothing if it is 0.
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

package class

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"time"

	"example.com/stock/loadtest"
)

// drawnOfLoad is how many requests of a load a page draws: the latest ones. The figures count everything.
const drawnOfLoad = 2000

// ReadLoad reads a history of stock load as a recording, with the verdict of the load's judge. An incomplete last line
// is ignored.
func ReadLoad(r io.Reader) (*Recording, error) {
	h, err := loadtest.ReadHistory(r)
	if err != nil && !errors.Is(err, loadtest.ErrCut) {
		return nil, err
	}
	if len(h.Records) == 0 {
		return nil, phrases.Error("no_request")
	}
	return recordLoad(h), nil
}

func recordLoad(h *loadtest.History) *Recording {
	result := h.Result()
	l := &load{left: map[string]leftover{}, locks: map[lockOf]int{}, base: result.Records[0].Seq - 1}
	if n := len(h.Warm); n > 0 {
		l.base = h.Warm[n-1].Seq
	}
	l.begin(h.Header, result.Records[0].SentAt)
	for i := range result.Records {
		l.request(&result.Records[i])
	}
	l.count()
	l.judge(result)
	return record(l.events, drawnOfLoad)
}

// A load makes the events of a run of stock load, like those of a class, from its finished requests and their receipts.
type load struct {
	base    int // the number of the last request of the warm-up
	events  []RunEvent
	sales   []saleOf
	seq     uint64 // of the last event without a request
	last    int64  // the time of the last reply
	initial int64
	left    map[string]leftover // by SKU
	locks   map[lockOf]int      // number of each lock
	known   bool                // an instance has been named
}

// A saleOf is a sale at the time of its write, or of its reply if that is unknown.
type saleOf struct {
	at     int64
	record *loadtest.Record
}

// A leftover is the stock that the last sale of a SKU left, and the version that the sale had read.
type leftover struct {
	units   int64
	version uint64
}

// A lockOf names what a lock protects: a SKU, or a segment of it.
type lockOf struct {
	sku     string
	segment int
}

// begin begins the run.
func (l *load) begin(h loadtest.Header, first time.Time) {
	for _, b := range h.Before {
		l.initial += b.Quantity
		l.left[b.SKU] = leftover{b.Quantity, b.Version}
	}
	at := min(h.StartedAt.UnixMicro(), first.UnixMicro())
	l.tell(RunEvent{At: at, Kind: runBegan, Plan: &RunPlan{
		Strategy: h.Strategy.Name, Store: h.Plan.Store, Stock: l.initial, Requests: h.Plan.Requests,
		Exclusive: h.Strategy.Promise.Exclusive, Scope: h.Strategy.Promise.Scope, Fenced: h.Strategy.Promise.Fenced,
	}})
	stock := &StockSeen{Known: true, Initial: l.initial, Written: l.initial}
	l.tell(RunEvent{At: at, Kind: stockSeen, Stock: stock, counted: true})
}

// tell adds an event without a request.
func (l *load) tell(e RunEvent) {
	l.seq++
	e.From, e.Run, e.Seq = class, 1, l.seq
	l.events = append(l.events, e)
}

// request adds the events of a request. Because the clock of an instance may differ from ours, its times are moved
// between the request and its reply and after earlier steps, so that no effect precedes its cause.
func (l *load) request(rec *loadtest.Record) {
	sent, done := rec.SentAt.UnixMicro(), rec.DoneAt.UnixMicro()
	l.last = max(l.last, done)
	ours := RunEvent{
		At: sent, From: class, Run: 1, Req: nameOf(1, rec.Seq-l.base), Kind: fired, Outcome: outcomeOf(rec),
		Replayed: rec.Replayed,
	}
	step := ours
	step.From = l.app(rec)
	l.events = append(l.events, ours)
	add := func(kind string, at int64) {
		step.Kind, step.At = kind, at
		step.Seq++
		l.events = append(l.events, step)
	}
	add("arrived", sent)
	r, at, wrote := rec.Receipt, sent, int64(0)
	if r != nil {
		step.Read, step.Remaining, step.Version, step.Epoch = r.Read, r.Remaining, r.Version, r.Epoch
		step.Segment = l.lock(lockOf{rec.SKU, r.Segment})
		if r.Fence > 0 {
			step.Fence = strconv.FormatUint(r.Fence, 10)
		}
		ours.Wakes = r.Wakeups
		if r.Batch != nil {
			ours.Batch = r.Batch.ID
		}
	}
	if r != nil && !rec.Replayed { // the receipt of a replay belongs to an earlier request
		for _, s := range stepsOf(r) {
			if s.at.IsZero() {
				continue
			}
			at = min(max(s.at.UnixMicro(), at), done)
			add(s.kind, at)
			if s.kind == "wrote" {
				wrote = at
			}
		}
		if rec.Outcome == loadtest.Accepted && !rec.Blind {
			add("ended", done)
		}
	}
	ours.Kind, ours.At = answered, done
	l.events = append(l.events, ours)
	if rec.Outcome == loadtest.Accepted && !rec.Replayed {
		l.sales = append(l.sales, saleOf{cmp.Or(wrote, done), rec})
	}
}

// A stepAt is a step of a sale with its time, which may be unknown.
type stepAt struct {
	kind string
	at   time.Time
}

// stepsOf returns the steps that a receipt tells of.
func stepsOf(r *loadtest.Receipt) []stepAt {
	read, wrote := r.ReadAt, r.WrittenAt
	if read.IsZero() {
		read = r.AcquiredAt
	}
	if wrote.IsZero() {
		wrote = r.ReleasedAt
	}
	return []stepAt{{"acquired", r.AcquiredAt}, {"read", read}, {"wrote", wrote}, {"released", r.ReleasedAt}}
}

// outcomeOf returns the page's name of an outcome. A foreign service reports no problem names.
func outcomeOf(rec *loadtest.Record) string {
	if rec.Outcome == loadtest.Accepted || rec.Problem == "" {
		return map[loadtest.Outcome]string{
			loadtest.Accepted: accepted, loadtest.Busy: "lock_busy", loadtest.SoldOut: "sold_out",
			loadtest.Failed: "no_reply", loadtest.Unknown: "outcome_unknown",
		}[rec.Outcome]
	}
	return rec.Problem
}

// count adds the stock after each sale. Of two sales of a SKU, the one that read the later version wrote later. For
// segments only the sum of sales is known, because they transfer units to each other.
func (l *load) count() {
	slices.SortStableFunc(l.sales, func(a, b saleOf) int { return cmp.Compare(a.at, b.at) })
	written, sold := l.initial, int64(0)
	for _, s := range l.sales {
		rec, before := s.record, l.left[s.record.SKU]
		sold += rec.Quantity
		switch {
		case rec.Receipt == nil || rec.Blind || rec.Segment > 0:
			written -= rec.Quantity
		case rec.Version >= before.version:
			written += rec.Remaining - before.units
			l.left[rec.SKU] = leftover{rec.Remaining, rec.Version}
		}
		stock := &StockSeen{Known: true, Initial: l.initial, Written: written, Sold: sold}
		l.tell(RunEvent{At: s.at, Kind: stockSeen, Stock: stock, counted: true})
	}
}

// app returns the column of a request. A foreign service may not report which instance answered.
func (l *load) app(rec *loadtest.Record) string {
	name := rec.Instance
	if name == "" && (rec.Status > 0 || !l.known) {
		name = "?"
	}
	l.known = true
	return name
}

func (l *load) lock(of lockOf) int {
	n, ok := l.locks[of]
	if !ok {
		n = len(l.locks) + 1
		l.locks[of] = n
	}
	return n
}

// judge ends the run with the verdict of the load's judge.
func (l *load) judge(result *loadtest.Result) {
	j := &result.Verdict
	stock := &StockSeen{Known: j.Known, Initial: l.initial, Written: j.RemainingUnits, Sold: j.AcceptedUnits}
	l.tell(RunEvent{At: l.last, Kind: stockSeen, Stock: stock})
	l.tell(RunEvent{At: l.last, Kind: judged, judge: j})
}

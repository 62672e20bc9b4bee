package class

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"example.com/stock/loadtest"
)

// loadFrames makes frames of a run of stock load. It gets each finished request with its receipt, and derives events
// from them for a State, like those of a class.
type loadFrames struct {
	state *State
	run   int
	base  int // the number of the last request of the warm-up

	set     map[string]json.RawMessage // changes for the next frame
	initial int64
	written int64 // stock after the sales so far
	sold    int64
	left    map[string]leftover // by SKU
	locks   map[lockOf]int      // number of each lock
	apps    []string
	seq     uint64 // of the last event without a request
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

// newLoadFrames begins a run.
func newLoadFrames(run int, h loadtest.Header) *loadFrames {
	f := &loadFrames{
		state: NewState(), run: run, set: map[string]json.RawMessage{},
		left: map[string]leftover{}, locks: map[lockOf]int{},
	}
	for _, b := range h.Before {
		f.initial += b.Quantity
		f.left[b.SKU] = leftover{b.Quantity, b.Version}
	}
	f.written = f.initial
	at := h.StartedAt.UnixMicro()
	f.tell(RunEvent{At: at, Kind: runBegan, Plan: &RunPlan{
		Strategy: h.Strategy.Name, Store: h.Plan.Store, Stock: f.initial, Requests: h.Plan.Requests,
		Exclusive: h.Strategy.Promise.Exclusive, Scope: h.Strategy.Promise.Scope, Fenced: h.Strategy.Promise.Fenced,
	}})
	f.put("run", f.state.runView())
	f.count(at)
	return f
}

// tell adds an event without a request.
func (f *loadFrames) tell(e RunEvent) {
	f.seq++
	e.From, e.Run, e.Seq = class, f.run, f.seq
	f.state.Apply(e)
}

func (f *loadFrames) put(key string, value any) {
	if text, err := json.Marshal(value); err == nil { // no value here can fail
		f.set[key] = text
	}
}

// frame returns the changes since the last frame.
func (f *loadFrames) frame(at int64) (frame Frame, changed bool) {
	frame = Frame{at, f.set}
	f.set = map[string]json.RawMessage{}
	return frame, len(frame.Set) > 0
}

// A moment is a part of the life of a request.
type moment int

const (
	leaves  moment = iota // it is sent
	enters                // it enters the critical section
	reads                 // it has read the stock
	writes                // it has written
	frees                 // it has left the critical section
	comes                 // its reply arrives
	moments               // number of moments
)

// said returns the time of a moment in the receipt, or the zero time.
func (m moment) said(r *loadtest.Receipt) time.Time {
	switch {
	case r == nil:
	case m == enters:
		return r.AcquiredAt
	case m == reads && r.ReadAt.IsZero():
		return r.AcquiredAt
	case m == reads:
		return r.ReadAt
	case m == writes && r.WrittenAt.IsZero(), m == frees:
		return r.ReleasedAt
	case m == writes:
		return r.WrittenAt
	}
	return time.Time{}
}

// at returns the time of a moment, or false if it is unknown. Because the clock of an instance may differ from ours,
// its times are moved between the request and its reply and after earlier moments, so that no effect precedes its
// cause.
func (m moment) at(r *loadtest.Record) (at int64, known bool) {
	first, last := r.SentAt.UnixMicro(), r.DoneAt.UnixMicro()
	switch m {
	case leaves:
		return first, true
	case comes:
		return last, true
	}
	if r.Replayed { // the receipt belongs to an earlier request
		return 0, false
	}
	at = first
	for earlier := enters; earlier <= m; earlier++ {
		t := earlier.said(r.Receipt)
		if known = !t.IsZero(); known {
			at = min(max(t.UnixMicro(), at), last)
		}
	}
	return at, known
}

// play adds a moment of a request, and its changes to the frame.
func (f *loadFrames) play(rec *loadtest.Record, m moment) {
	at, known := m.at(rec)
	if !known {
		return
	}
	id := f.name(rec.Seq)
	ours := RunEvent{At: at, From: class, Run: f.run, Req: id, Outcome: outcomeOf(rec), Replayed: rec.Replayed}
	step := ours
	step.From, step.Seq = f.app(rec), uint64(m)+1
	if r := rec.Receipt; r != nil && m != leaves {
		step.Read, step.Remaining, step.Version, step.Epoch = r.Read, r.Remaining, r.Version, r.Epoch
		step.Segment = f.lock(lockOf{rec.SKU, r.Segment})
		if r.Fence > 0 {
			step.Fence = strconv.FormatUint(r.Fence, 10)
		}
	}
	was := f.state.sold(id)
	step.Kind = [moments]string{"arrived", "acquired", "read", "wrote", "released", "ended"}[m]
	if m == leaves {
		ours.Kind = fired
		f.state.Apply(ours)
	}
	if m != comes || rec.Outcome == loadtest.Accepted && !rec.Replayed && rec.Receipt != nil && !rec.Blind {
		f.state.Apply(step)
	}
	if m == comes {
		ours.Kind = answered
		f.state.Apply(ours)
	}
	if f.state.sold(id) && !was {
		f.sell(rec, at)
	}
	for _, id := range f.state.changes() {
		if drawn(id) {
			f.put("t:"+id, f.state.token(id))
		}
	}
	if m == comes {
		f.put("verdict", f.state.shownVerdict())
		if !drawn(id) {
			f.state.drop(id)
		}
	}
}

// name returns the page's id of a request.
func (f *loadFrames) name(seq int) string { return nameOf(f.run, seq-f.base) }

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

// sell counts a sale at the time of its write, or of its reply if that is unknown. Of two sales of a SKU, the one that
// read the later version wrote later. For segments only the sum of sales is known, because they transfer units to each
// other.
func (f *loadFrames) sell(rec *loadtest.Record, at int64) {
	f.sold += rec.Quantity
	before := f.left[rec.SKU]
	switch {
	case rec.Receipt == nil || rec.Blind || rec.Segment > 0:
		f.written -= rec.Quantity
	case rec.Version >= before.version:
		f.written += rec.Remaining - before.units
		f.left[rec.SKU] = leftover{rec.Remaining, rec.Version}
	}
	f.count(at)
}

// count shows the stock after the sales so far.
func (f *loadFrames) count(at int64) {
	stock := &StockSeen{Known: true, Initial: f.initial, Written: f.written, Sold: f.sold}
	f.tell(RunEvent{At: at, Kind: stockSeen, Stock: stock, counted: true})
	f.put("verdict", f.state.shownVerdict())
}

// app returns the column of a request. A foreign service may not report which instance answered.
func (f *loadFrames) app(rec *loadtest.Record) string {
	name := rec.Instance
	if name == "" && (rec.Status > 0 || len(f.apps) == 0) {
		name = "?"
	}
	if name != "" && !slices.Contains(f.apps, name) {
		f.apps = append(f.apps, name)
		slices.Sort(f.apps)
	}
	return name
}

func (f *loadFrames) lock(of lockOf) int {
	n, ok := f.locks[of]
	if !ok {
		n = len(f.locks) + 1
		f.locks[of] = n
	}
	return n
}

// judge ends the run with the verdict of the load's judge.
func (f *loadFrames) judge(at int64, result *loadtest.Result) {
	j := &result.Verdict
	stock := &StockSeen{Known: j.Known, Initial: f.initial, Written: j.RemainingUnits, Sold: j.AcceptedUnits}
	f.tell(RunEvent{At: at, Kind: stockSeen, Stock: stock})
	f.tell(RunEvent{At: at, Kind: judged, judge: j})
	f.put("verdict", f.state.shownVerdict())
}

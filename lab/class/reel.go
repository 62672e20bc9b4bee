package class

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"example.com/stock/loadtest"
)

// A reel makes frames of a run of stock load, whose requests come with what their instances said of them when they are
// over. It keeps no more than what is shown.
type reel struct {
	run    int
	header loadtest.Header
	base   int // the number of the last request of the warm-up

	set     map[string]json.RawMessage // of the frame to come
	first   map[version]int            // the first request that sold what it had read, by what it was
	tokens  map[int]*token             // of requests that are not over, by number
	written map[string]wrote           // what was written last, by SKU
	fences  []string                   // of the whole run, from the smallest; empty: not known yet
	locks   map[lockOf]int             // a number for each
	apps    []string
	verdict Verdict
	points  int
	pointAt int64 // of the last point
	// pointEvery is the shortest time between two points, in µs.
	pointEvery int64
}

// A wrote is what a sale left, and the version that it had read.
type wrote struct {
	left    int64
	version uint64
}

// A lockOf names what one holder at a time is to have: a SKU, or a segment of it.
type lockOf struct {
	sku     string
	segment int
}

// verdictOf is the verdict as the load's own judge gave it.
type verdictOf struct {
	Verdict
	Said map[string]string `json:"said,omitempty"` // in words, by language; in place of those of the wall
}

func newReel(run int, h loadtest.Header) *reel {
	r := &reel{
		run: run, header: h, set: map[string]json.RawMessage{}, first: map[version]int{}, tokens: map[int]*token{},
		written: map[string]wrote{}, locks: map[lockOf]int{},
	}
	for _, b := range h.Before {
		r.verdict.Initial += b.Quantity
		r.written[b.SKU] = wrote{b.Quantity, b.Version}
	}
	r.verdict.Known, r.verdict.Code = true, "selling"
	r.verdict.Written, r.verdict.Truth = r.verdict.Initial, r.verdict.Initial
	at := h.StartedAt.UnixMicro()
	r.put("run", struct {
		N    int   `json:"n"`
		At   int64 `json:"at"`
		Plan *Plan `json:"plan"`
	}{run, at, &Plan{
		Strategy: h.Strategy.Name, Store: h.Plan.Store, Stock: r.verdict.Initial, Requests: h.Plan.Requests,
		Exclusive: h.Strategy.Promise.Exclusive, Scope: h.Strategy.Promise.Scope, Fenced: h.Strategy.Promise.Fenced,
		ThinkMS: int(h.Plan.Think.Milliseconds()),
	}})
	r.put("verdict", r.verdict)
	r.point(at)
	return r
}

func (r *reel) put(key string, value any) {
	if text, err := json.Marshal(value); err == nil { // nothing that is put here can fail
		r.set[key] = text
	}
}

// frame returns what has changed since the last.
func (r *reel) frame(at int64) (f Frame, changed bool) {
	f = Frame{at, r.set}
	r.set = map[string]json.RawMessage{}
	return f, len(f.Set) > 0
}

// A moment is a part of the life of a request.
type moment int

const (
	leaves  moment = iota // it is sent
	enters                // the critical section
	reads                 // has the stock in hand
	writes                // knows that it has written
	frees                 // has left the critical section
	comes                 // its reply
	moments               // how many there are
)

// said returns when an instance says that a moment was, or the zero time.
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

// at returns when a moment was, or false if nobody said so. The clock of an instance may be another than ours: what it
// says is put between the request and its reply, and after what came before, so that no effect comes before its cause.
func (m moment) at(r *loadtest.Record) (at int64, known bool) {
	first, last := r.SentAt.UnixMicro(), r.DoneAt.UnixMicro()
	switch m {
	case leaves:
		return first, true
	case comes:
		return last, true
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

// play shows a moment of a request. If shown is false, it counts only.
func (r *reel) play(rec *loadtest.Record, m moment, shown bool) {
	at, known := m.at(rec)
	if !known {
		return
	}
	t := r.tokens[rec.Seq]
	if t == nil {
		t = &token{N: rec.Seq - r.base, Fired: rec.SentAt.UnixMicro()}
		r.tokens[rec.Seq] = t
	}
	switch m {
	case leaves:
		t.App, t.Phase = r.app(rec), "waits"
		r.verdict.Open++
	case enters:
		t.Phase = "in"
		if rec.Fence > 0 {
			t.Digits = strconv.FormatUint(rec.Fence, 10)
			t.Fence = 1 + slices.Index(r.fences, t.Digits)
		}
		t.Holds = []hold{{From: at, Segment: r.lock(lockOf{rec.SKU, rec.Segment})}}
	case reads:
		if !rec.Blind {
			t.Phase, t.Read = "read", &rec.Read
		}
	case writes:
		t.Phase = "wrote"
		r.sell(rec, t, at)
	case frees:
		t.closeHold(at)
	case comes:
		r.end(rec, t, at)
	}
	if shown {
		r.put("t:"+r.name(rec.Seq), t)
	}
	if m == comes {
		delete(r.tokens, rec.Seq)
	}
}

// name is the id of a request as the page knows it.
func (r *reel) name(seq int) string {
	return "r" + strconv.Itoa(r.run) + "." + strconv.Itoa(seq-r.base)
}

// end shows the reply.
func (r *reel) end(rec *loadtest.Record, t *token, at int64) {
	r.verdict.Open--
	if rec.Outcome == loadtest.Accepted {
		r.sell(rec, t, at)
	}
	t.Phase, t.Ended, t.Outcome = "done", at, outcomeOf(rec)
	t.Replayed = rec.Replayed
	r.put("verdict", r.verdict)
}

// outcomeOf returns what the page calls an outcome. A foreign service names no problem.
func outcomeOf(rec *loadtest.Record) string {
	if rec.Outcome == loadtest.Accepted || rec.Problem == "" {
		return map[loadtest.Outcome]string{
			loadtest.Accepted: accepted, loadtest.Busy: "lock_busy", loadtest.SoldOut: "sold_out",
			loadtest.Failed: "no_reply", loadtest.Unknown: "outcome_unknown",
		}[rec.Outcome]
	}
	return rec.Problem
}

// sell counts a sale when it is known: when it was written, or else when its reply came. While the run lasts, a stock
// that is smaller than what was sold tells of no more than a reply that is still to come.
func (r *reel) sell(rec *loadtest.Record, t *token, at int64) {
	if t.sold || rec.Replayed {
		return
	}
	t.sold = true
	v := &r.verdict
	v.Sold += rec.Quantity
	v.Truth, v.Oversold = v.Initial-v.Sold, max(0, v.Sold-v.Initial)
	if rec.Blind {
		v.Written -= rec.Quantity
	} else {
		t.Read, t.Wrote = &rec.Read, &rec.Remaining
		r.write(rec)
		r.collide(rec, t)
	}
	if v.Lost = max(0, v.Written-v.Truth); v.Oversold > 0 || v.Collisions > 0 || v.Lost > 0 {
		v.Code = "race"
	}
	r.put("verdict", v)
	if at-r.pointAt >= r.pointEvery {
		r.point(at)
	}
}

// write notes what a sale has left. Of two sales the one that has read the later version wrote later. Segments hand
// units to each other, so that of them no more is known than what was sold.
func (r *reel) write(rec *loadtest.Record) {
	if rec.Segment > 0 {
		r.verdict.Written -= rec.Quantity
		return
	}
	before := r.written[rec.SKU]
	if rec.Version >= before.version {
		r.verdict.Written += rec.Remaining - before.left
		r.written[rec.SKU] = wrote{rec.Remaining, rec.Version}
	}
}

// collide finds out whether another sale has read the same.
func (r *reel) collide(rec *loadtest.Record, t *token) {
	what := version{rec.Epoch, rec.Version, r.lock(lockOf{rec.SKU, rec.Segment})}
	other, twice := r.first[what]
	switch {
	case rec.Epoch == 0:
	case twice:
		r.verdict.Collisions++
		t.Twin = true
		r.put("twin:"+r.name(other), true)
	default:
		r.first[what] = rec.Seq
	}
}

// app is the column of a request. A foreign service may not say who answered.
func (r *reel) app(rec *loadtest.Record) string {
	name := rec.Instance
	if name == "" && (rec.Status > 0 || len(r.apps) == 0) {
		name = "?"
	}
	if name != "" && !slices.Contains(r.apps, name) {
		r.apps = append(r.apps, name)
		slices.Sort(r.apps)
		r.put("apps", r.apps)
	}
	return name
}

func (r *reel) lock(of lockOf) int {
	n, ok := r.locks[of]
	if !ok {
		n = len(r.locks) + 1
		r.locks[of] = n
	}
	return n
}

// point adds one to the line of the stock.
func (r *reel) point(at int64) {
	v := &r.verdict
	r.put("p:"+strconv.Itoa(r.points), []any{at, v.Written, v.Truth, v.Known})
	r.points++
	r.pointAt = at
}

// judge ends the run with what the judge of the load says of it.
func (r *reel) judge(at int64, result *loadtest.Result) {
	j := &result.Verdict
	v := &r.verdict
	v.Known, v.Sold, v.Truth = j.Known, j.AcceptedUnits, j.InitialUnits-j.AcceptedUnits
	v.Oversold, v.Lost, v.Open = j.OversoldUnits, j.LostUnits, 0
	if j.Known {
		v.Written = j.RemainingUnits
	}
	switch {
	case j.RaceSeen || j.Finding == loadtest.Broken:
		v.Code = "race"
	case j.Finding == loadtest.Holds:
		v.Code = "kept"
	default:
		v.Code = "unknown"
	}
	r.put("verdict", verdictOf{*v, both(j.Sentence)})
	r.point(at)
}

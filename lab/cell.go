package lab

import (
	"cmp"
	"time"
)

// A Cell is the result of one run of one case of a scenario: what was predicted, what was seen, and the evidence.
type Cell struct {
	Scenario string `json:"scenario"`
	Strategy string `json:"strategy,omitempty"` // empty: code of the lab
	Code     string `json:"code,omitempty"`
	Variant  string `json:"variant,omitempty"`    // in English
	ZH       string `json:"variant_zh,omitempty"` // Variant in Chinese
	Store    string `json:"store,omitempty"`
	Repeat   int    `json:"repeat"` // from 1

	Predicted   Forecast `json:"predicted"`
	Observed    Outcome  `json:"observed,omitempty"`
	AfterMS     float64  `json:"after_ms,omitempty"` // of delays: how long
	AsPredicted bool     `json:"as_predicted"`
	Skipped     string   `json:"skipped,omitempty"` // why it was not tried
	Failed      string   `json:"failed,omitempty"`  // why there is no verdict
	Before      string   `json:"before,omitempty"`  // why an earlier attempt gave no verdict

	SKU       string      `json:"sku,omitempty"`
	StartedAt time.Time   `json:"started_at"`
	TookMS    float64     `json:"took_ms"`
	Evidence  []Evidence  `json:"evidence"`
	Events    []CaseEvent `json:"events"` // oldest first
}

// Case returns the case of which c is a result. Its Variant is not a key, so that only its Label is set.
func (c Cell) Case() Case {
	label := Text{EN: c.Variant, ZH: cmp.Or(c.ZH, c.Variant)}
	return Case{Strategy: c.Strategy, Code: c.Code, Label: label, Store: c.Store}
}

// Evidence is one fact by which a cell was judged.
type Evidence struct {
	Kind  Proof  `json:"kind"`
	Text  string `json:"text"`
	ZH    string `json:"text_zh,omitempty"` // Text in Chinese
	Value any    `json:"value,omitempty"`   // the number or the structure that Text tells of
}

// Said returns the fact in both languages, or the English text for both if there is no Chinese one.
func (e Evidence) Said() Text { return Text{EN: e.Text, ZH: cmp.Or(e.ZH, e.Text)} }

// A Proof is a kind of evidence. The set is closed.
type Proof string

// The proofs.
const (
	Pair    Proof = "pair"    // two orders that read the same version: a proof that needs no clock
	Balance Proof = "balance" // initial, sold and left
	Fence   Proof = "fence"   // fences, and which writes were refused
	Hold    Proof = "hold"    // when each holder believed that it held the lock
	Served  Proof = "server"  // what a server said: PTTL, rows, watches, nodes
	Waited  Proof = "wait"    // how long a customer waited
	Answer  Proof = "answer"  // what a customer was told
)

// A CaseEvent is something that happened in a lane of the timeline. One with Until is an interval.
type CaseEvent struct {
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"`
	Lane  string    `json:"lane"` // the process or server
	Kind  Kind      `json:"kind"`
	Who   string    `json:"who,omitempty"` // the request, or the code, that it happened to
	Text  string    `json:"text"`
	ZH    string    `json:"text_zh,omitempty"` // Text in Chinese

	// What Text says, for pictures. What an event does not tell of is zero.

	To      string `json:"to,omitempty"`      // the process or server that it went to, or came from
	Read    *int64 `json:"read,omitempty"`    // how many were read
	Left    *int64 `json:"left,omitempty"`    // how many are in the store from then on
	Version uint64 `json:"version,omitempty"` // of the stock, as it was read
	Fence   uint64 `json:"fence,omitempty"`
	Point   string `json:"point,omitempty"` // of Paused
	TTL     []TTL  `json:"ttl,omitempty"`   // of Standing: how long the server lets the hold stand
	Woken   []int  `json:"woken,omitempty"` // how many waiters each release woke, from the first release on
}

// A TTL is how much of a lease was left at a moment, as its server said. Between two of them it runs down, or is
// renewed.
type TTL struct {
	At   time.Time `json:"at"`
	Left float64   `json:"left_ms"`
}

// Said returns what happened in both languages, or the English text for both if there is no Chinese one.
func (e CaseEvent) Said() Text { return Text{EN: e.Text, ZH: cmp.Or(e.ZH, e.Text)} }

// A Kind says how an event is drawn. The set is closed.
type Kind string

// The kinds. Lease and Standing show the same hold as seen by its holder and by the server. Where they differ, a lock
// fails.
const (
	Sent     Kind = "sent"     // a request came
	Answered Kind = "answered" // and was answered
	Paused   Kind = "paused"   // interval: it stood at a pause point
	Lease    Kind = "lease"    // interval: it held the lock, as it believed
	Standing Kind = "standing" // interval: it held the lock, as the server had it
	Fault    Kind = "fault"    // interval: frozen, cut, dead
	Write    Kind = "write"    // an order was written
	Refused  Kind = "refused"  // a write was refused
	Note     Kind = "note"     // anything else that was seen or done

	Asks   Kind = "asks"   // it asks for the lock
	Gets   Kind = "gets"   // and has it
	Read   Kind = "read"   // the stock was read: the value is in hand
	Thinks Kind = "thinks" // interval: between read and write
	Gives  Kind = "gives"  // it is about to give the lock back
)

// A Report is a run of the lab.
type Report struct {
	Version   int       `json:"version"`
	StartedAt time.Time `json:"started_at"`
	TookMS    float64   `json:"took_ms"`
	Cells     []Cell    `json:"cells"`
}

// ReportVersion is the version of the JSON form.
const ReportVersion = 1

// Wrong returns the cells that are not as predicted, and those without a verdict.
func (r Report) Wrong() []Cell {
	var wrong []Cell
	for _, c := range r.Cells {
		if c.Skipped == "" && !c.AsPredicted {
			wrong = append(wrong, c)
		}
	}
	return wrong
}

// Skipped returns the cells that were not tried.
func (r Report) Skipped() []Cell {
	var skipped []Cell
	for _, c := range r.Cells {
		if c.Skipped != "" {
			skipped = append(skipped, c)
		}
	}
	return skipped
}

package lab

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A Cell is the result of one run of one case of a scenario: prediction, observation and evidence.
type Cell struct {
	Scenario string `json:"scenario"`
	Strategy string `json:"strategy,omitempty"` // empty: code of the lab
	Code     string `json:"code,omitempty"`
	Variant  string `json:"variant,omitempty"`    // in English
	ZH       string `json:"variant_zh,omitempty"` // Variant in Chinese
	Store    string `json:"store,omitempty"`

	Predicted   Forecast `json:"predicted"`
	Observed    Outcome  `json:"observed,omitempty"`
	AfterMS     float64  `json:"after_ms,omitempty"` // duration of a delay
	AsPredicted bool     `json:"as_predicted"`
	Skipped     string   `json:"skipped,omitempty"` // why it was not run
	Failed      string   `json:"failed,omitempty"`  // why there is no verdict
	Before      string   `json:"before,omitempty"`  // why the previous attempt gave no verdict

	SKU       string      `json:"sku,omitempty"`
	StartedAt time.Time   `json:"started_at"`
	TookMS    float64     `json:"took_ms"`
	Evidence  []Evidence  `json:"evidence"`
	Events    []CaseEvent `json:"events"` // oldest first
}

// Case returns the case of c. It sets Label, and no Variant, because a Cell does not contain that key.
func (c Cell) Case() Case {
	label := Text{EN: c.Variant, ZH: cmp.Or(c.ZH, c.Variant)}
	return Case{Strategy: c.Strategy, Code: c.Code, Label: label, Store: c.Store}
}

// Evidence is one fact by which a cell was judged.
type Evidence struct {
	Kind  Proof  `json:"kind"`
	Text  string `json:"text"`
	ZH    string `json:"text_zh,omitempty"` // Text in Chinese
	Value any    `json:"value,omitempty"`   // the number or the structure that Text describes
}

// Said returns the fact in both languages. Without a Chinese text both are English.
func (e Evidence) Said() Text { return Text{EN: e.Text, ZH: cmp.Or(e.ZH, e.Text)} }

// A Proof is a kind of evidence. The set is closed.
type Proof string

// The proofs.
const (
	Pair    Proof = "pair"    // two orders that read the same version: a proof that needs no clock
	Balance Proof = "balance" // initial, sold and left
	Fence   Proof = "fence"   // fencing tokens, and which writes were refused
	Hold    Proof = "hold"    // when each holder believed that it held the lock
	Served  Proof = "server"  // a server's reply: PTTL, rows, watches, nodes
	Waited  Proof = "wait"    // how long a customer waited
	Answer  Proof = "answer"  // the reply to a customer
)

// A CaseEvent is something that happened in a lane of the timeline. One with Until is an interval.
type CaseEvent struct {
	At    time.Time `json:"at"`
	Until time.Time `json:"until,omitzero"`
	Lane  string    `json:"lane"` // the process or server
	Kind  Kind      `json:"kind"`
	Who   string    `json:"who,omitempty"` // the request, or the lab's code, that it concerns
	Text  string    `json:"text"`
	ZH    string    `json:"text_zh,omitempty"` // Text in Chinese

	// The content of Text, for diagrams. What does not apply is zero.

	To      string `json:"to,omitempty"`      // the process or server at the other end
	Read    *int64 `json:"read,omitempty"`    // the stock that was read
	Left    *int64 `json:"left,omitempty"`    // the stock after the event
	Version uint64 `json:"version,omitempty"` // of the stock that was read
	Fence   uint64 `json:"fence,omitempty"`
	Point   string `json:"point,omitempty"` // for Paused; for Fault Killed, if the process has ended
	TTL     []TTL  `json:"ttl,omitempty"`   // for Standing: the lease that the server reports
	Woken   []int  `json:"woken,omitempty"` // how many waiters each release woke, from the first release on
}

// Killed is the Point of the fault of a process that was killed.
const Killed = "killed"

// A TTL is the rest of a lease at a moment, as its server reported it.
type TTL struct {
	At   time.Time `json:"at"`
	Left float64   `json:"left_ms"`
}

// Said returns the text in both languages. Without a Chinese text both are English.
func (e CaseEvent) Said() Text { return Text{EN: e.Text, ZH: cmp.Or(e.ZH, e.Text)} }

// A Kind says how an event is drawn. The set is closed.
type Kind string

// The kinds. Lease and Standing show the same hold as its holder and as the server see it. Where they differ, the lock
// fails.
const (
	Sent     Kind = "sent"     // a request arrived
	Answered Kind = "answered" // its reply was sent
	Paused   Kind = "paused"   // interval: a request waited at a pause point
	Lease    Kind = "lease"    // interval: a request believed that it held the lock
	Standing Kind = "standing" // interval: the server regarded it as the holder
	Fault    Kind = "fault"    // interval: frozen, cut, dead
	Write    Kind = "write"    // an order was written
	Refused  Kind = "refused"  // a write was refused
	Note     Kind = "note"     // anything else that was seen or done

	Asks   Kind = "asks"   // a request asks for the lock
	Gets   Kind = "gets"   // it has acquired the lock
	Read   Kind = "read"   // it has read the stock
	Thinks Kind = "thinks" // interval: between read and write
	Gives  Kind = "gives"  // it is about to release the lock
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

// Skipped returns the cells that were not run.
func (r Report) Skipped() []Cell {
	var skipped []Cell
	for _, c := range r.Cells {
		if c.Skipped != "" {
			skipped = append(skipped, c)
		}
	}
	return skipped
}

// A Timeline records events. It is safe for concurrent use.
type Timeline struct {
	mu     sync.Mutex
	events []CaseEvent
}

// Record adds an event with its text. One without a time is of this moment.
func (t *Timeline) Record(e CaseEvent, said Text) {
	e.Text, e.ZH = said.EN, said.ZH
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.At = e.At.UTC()
	if !e.Until.IsZero() {
		e.Until = e.Until.UTC()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, e)
}

// Events returns a copy of the events, oldest first.
func (t *Timeline) Events() []CaseEvent {
	t.mu.Lock()
	defer t.mu.Unlock()
	events := slices.Clone(t.events)
	slices.SortStableFunc(events, func(x, y CaseEvent) int {
		return cmp.Or(x.At.Compare(y.At), x.Until.Compare(y.Until))
	})
	return events
}

package loadtest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	problemtext "example.com/stock/handler/text"
	"example.com/stock/internal/words"
)

// An Outcome is how a request ended, as far as the sender can tell.
type Outcome string

// The outcomes. Busy and sold out are answers, not failures.
const (
	Accepted Outcome = "accepted"
	Busy     Outcome = "busy"     // the lock was held until the wait ended, or a queue was full
	SoldOut  Outcome = "sold_out" // too few were left
	Failed   Outcome = "failed"   // any other refusal, or not sent: nothing was sold
	Unknown  Outcome = "unknown"  // no usable reply came: units may have been sold
)

// Outcomes returns all outcomes, in the order in which reports list them.
func Outcomes() []Outcome { return []Outcome{Accepted, Busy, SoldOut, Failed, Unknown} }

// A Receipt is what an accepted request read and wrote, as its instance reported it.
type Receipt struct {
	Read       int64     `json:"read"`
	Remaining  int64     `json:"remaining"`
	Version    uint64    `json:"version"`
	Epoch      uint64    `json:"epoch"`
	Fence      uint64    `json:"fence,omitempty"`   // of the holder; 0: the strategy has none
	Segment    int       `json:"segment,omitempty"` // of read, remaining and version; 0: they are of the whole stock
	Tries      int       `json:"tries,omitempty"`   // number of reads; 0: one
	Wakeups    int       `json:"wakeups,omitempty"` // how often the lock's server woke it while it waited
	WaitedMS   float64   `json:"waited_ms"`
	HeldMS     float64   `json:"held_ms"`
	AcquiredAt time.Time `json:"acquired_at,omitzero"` // by the instance's clock
	// when the read and the write had completed; zero: the target does not report it
	ReadAt     time.Time `json:"read_at,omitzero"`
	WrittenAt  time.Time `json:"written_at,omitzero"`
	ReleasedAt time.Time `json:"released_at,omitzero"`
	LeaseLost  bool      `json:"lease_lost,omitempty"` // after the write; the order is valid
	Batch      *Batch    `json:"batch,omitempty"`      // nil: the strategy does not merge
	// a foreign API that does not report read, remaining and version
	Blind bool `json:"blind,omitempty"`
}

// A Batch identifies the batch of a sale. A batch is one step of the store, or one hold of a lock.
type Batch struct {
	ID    string `json:"id"`
	Place int    `json:"place"` // in the order of arrival at the instance, from 1
	Size  int    `json:"size"`  // number of sales in the batch, refused ones included
}

// A Reply is the result of one deduction. Its Receipt is nil unless the request was accepted.
type Reply struct {
	Outcome  Outcome `json:"outcome"`
	Status   int     `json:"status,omitempty"`   // HTTP status; 0: there was no reply
	Problem  string  `json:"problem,omitempty"`  // problem type, such as "lock_busy"
	OrderID  string  `json:"order_id,omitempty"` // of an accepted request; of an unknown one if the service named it
	Instance string  `json:"instance,omitempty"`
	Error    string  `json:"error,omitempty"`
	Location string  `json:"location,omitempty"` // target of a redirect, without its query; it is not followed
	Replayed bool    `json:"replayed,omitempty"` // repeats the reply to an earlier request with the same key
	// how long a foreign API asks a client to wait before the next request; 0: it does not
	Wait time.Duration `json:"-"`
	*Receipt
	// a deduction in several steps, which a mapping describes; nil: it is one request
	Purchase *Purchase `json:"purchase,omitempty"`
}

// A Record is one request of a run with its reply. It is one line of a history.
//
// PlannedAt, SentAt and DoneAt are the start of the run, by the wall clock, plus elapsed monotonic time. Setting the
// clock during the run neither reorders them nor changes their distance.
type Record struct {
	// from 1, in the order of sending, through warm-up and run; those missing were dropped
	Seq       int       `json:"seq"`
	Worker    int       `json:"worker"`
	RequestID string    `json:"request_id"`
	Strategy  string    `json:"strategy"`
	Store     string    `json:"store"`
	SKU       string    `json:"sku"`
	Quantity  int64     `json:"quantity"`
	Warm      bool      `json:"warm,omitempty"`      // of the warm-up
	PlannedAt time.Time `json:"planned_at,omitzero"` // open loop: when it was to be sent
	SentAt    time.Time `json:"sent_at"`
	DoneAt    time.Time `json:"done_at"`
	Reply
}

// Late is the delay above which a request of an open loop counts as late. Timers of a loaded computer are a millisecond
// or two late; 10 ms mean that the generator did not keep up.
const Late = 10 * time.Millisecond

// Latency returns the time that the customer waited for the reply. In an open loop it counts from PlannedAt, so that it
// includes the time for which the generator delayed the request (no coordinated omission). In a closed loop, which
// plans no times, it counts from SentAt. Waits that a busy service asked for are left out.
func (r *Record) Latency() time.Duration {
	if r.PlannedAt.IsZero() {
		return r.Service()
	}
	return r.SentAt.Sub(r.PlannedAt) + r.Service()
}

// Service returns the time from sending the request to its reply, without waits that a busy service asked for.
func (r *Record) Service() time.Duration { return r.DoneAt.Sub(r.SentAt) - r.Purchase.paused() }

// Late reports whether an open loop sent r later than planned by more than Late: the generator did not keep up.
func (r *Record) Late() bool { return !r.PlannedAt.IsZero() && r.SentAt.Sub(r.PlannedAt) > Late }

// check returns an error if r is impossible.
func (r *Record) check() error {
	switch r.Outcome {
	case Accepted, Busy, SoldOut, Failed, Unknown:
	default:
		return fmt.Errorf("outcome %q is not one of %v", r.Outcome, Outcomes())
	}
	switch {
	case r.Seq < 1:
		return errors.New("seq must be 1 or more")
	case r.Quantity < 1:
		return errors.New("quantity must be 1 or more")
	case r.SentAt.IsZero() || r.DoneAt.Before(r.SentAt):
		return errors.New("sent_at and done_at must be set, and done_at not earlier")
	case r.SentAt.Before(r.PlannedAt):
		return errors.New("sent_at must not be earlier than planned_at")
	case r.Outcome == Accepted && (r.Receipt == nil || r.OrderID == ""):
		return errors.New("an accepted request must have order_id, read, remaining, version and epoch")
	case !r.Purchase.valid():
		return errors.New("the steps of a purchase must be some, and the one that decides among them")
	case r.Outcome != Accepted && r.Receipt != nil:
		return fmt.Errorf("a request with outcome %s cannot have read, remaining or version", r.Outcome)
	}
	return nil
}

// A Problem is a refusal by the service (RFC 9457).
type Problem struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	Status  int    `json:"status"`
	Detail  string `json:"detail"`
	Field   string `json:"field"`
	OrderID string `json:"order_id"`
	Of      string `json:"of"`    // with too_many_reservations: what is limited
	Limit   int64  `json:"limit"` // of it
	Sent    *bool  `json:"sent"`  // from a gateway: whether an instance got the request
}

// Said returns the refusal in both languages.
func (p *Problem) Said() words.Text {
	return problemtext.Said(p.Name(), cmp.Or(p.Detail, p.Title))
}

// Name returns the last part of the type: "lock_busy" of "/problems/lock_busy".
func (p *Problem) Name() string { return p.Type[strings.LastIndexByte(p.Type, '/')+1:] }

// Outcome returns what the refusal means for the sale.
func (p *Problem) Outcome() Outcome {
	switch p.Name() {
	case "lock_busy",
		"lock_timeout",
		"overloaded",
		"no_capacity": // for the last two, a queue was full and nothing was done
		return Busy
	case "sold_out":
		return SoldOut
	case "outcome_unknown", "internal": // a crash may come after the sale
		return Unknown
	case "bad_gateway", "gateway_timeout": // from a proxy, which may know that it reached no instance
		if p.Sent == nil || *p.Sent {
			return Unknown
		}
	}
	return Failed
}

func (p *Problem) Error() string {
	text := p.Detail
	if text == "" {
		text = p.Title
	}
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	return fmt.Sprintf("%d %s: %s", p.Status, p.Name(), text)
}

// A TargetError reports that the target cannot be used: it is down, refuses, or is no stock service. For a refusal it
// unwraps to a Problem.
type TargetError struct {
	URL string
	Err error
}

func (e *TargetError) Error() string { return e.URL + " " + e.Err.Error() }

// Unwrap returns the cause.
func (e *TargetError) Unwrap() error { return e.Err }

// A PlanError reports that a run is impossible. Field is the name of the Plan's field in JSON, and of the flag.
type PlanError struct {
	Field  string
	Reason words.Text
}

func (e *PlanError) Error() string { return e.Said().EN }

// Said returns the message in both languages.
func (e *PlanError) Said() words.Text { return say("field", "field", e.Field, "reason", e.Reason) }

// FailureSorts returns a line for each sort of failure, with its count, in the order of first occurrence. If there are
// more than most sorts, the last line counts the rest.
func FailureSorts(records []Record, most int) []words.Text {
	seen := make(map[string]int)
	var order []string
	for i := range records {
		r := &records[i]
		if r.Outcome != Failed && r.Outcome != Unknown {
			continue
		}
		sort := fmt.Sprintf("%s %s", r.Problem, r.Error)
		if seen[sort] == 0 {
			order = append(order, sort)
		}
		seen[sort]++
	}
	var lines []words.Text
	for i, sort := range order {
		if i == most {
			return append(lines, say("more-failures", "n", len(order)-i))
		}
		problem, detail, _ := strings.Cut(sort, " ")
		said := words.Join([]words.Text{words.Same(problem), ErrorText(problem, detail)}, words.Same(" "))
		lines = append(lines, words.Text{
			EN: fmt.Sprintf("%d x %s", seen[sort], strings.TrimSpace(said.EN)),
			ZH: fmt.Sprintf("%d 次 %s", seen[sort], strings.TrimSpace(said.ZH)),
		})
	}
	return lines
}

// ErrorText returns the error of a recorded request in both languages, from the English text in the history. problem is
// the reply's problem, if any.
func ErrorText(problem, recorded string) words.Text {
	texts, err := phrases.Texts()
	if problem != "" || err != nil {
		return problemtext.Said(problem, recorded)
	}
	own := texts.Under("recorded")
	return own.Read(recorded, own)
}

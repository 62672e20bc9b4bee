package loadtest

import "time"

// A Purchase tells how a deduction in several steps went. The sale lasts from the request that sells to the reply that
// decides: before it nothing is sold, and what comes after that changes nothing.
type Purchase struct {
	Steps   []Step `json:"steps"`   // that were taken
	Sells   int    `json:"sells"`   // number of the step, from 1, from which on units may be gone
	Decided int    `json:"decided"` // number of the step whose reply is the outcome
}

// A Step is one step of a Purchase, from its first request to the last reply.
type Step struct {
	Name     string  `json:"name"`
	AtMS     float64 `json:"at_ms"`               // when it began, after the record's SentAt
	TookMS   float64 `json:"took_ms"`             // without PausedMS
	PausedMS float64 `json:"paused_ms,omitempty"` // waited because the service was busy
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// valid reports whether p is possible, or nil.
func (p *Purchase) valid() bool {
	return p == nil || 1 <= p.Decided && p.Decided <= len(p.Steps) && p.Sells >= 1
}

// paused returns how long a purchase waited because the service was busy.
func (p *Purchase) paused() (d time.Duration) {
	if p == nil {
		return 0
	}
	for _, s := range p.Steps {
		d += milliseconds(s.PausedMS)
	}
	return d
}

// early reports whether a record is of a purchase that ended before the step that sells.
func (r *Record) early() bool { return r.Purchase != nil && r.Purchase.Decided < r.Purchase.Sells }

// ended returns the name of the step whose reply is the outcome, or "".
func (r *Record) ended() string {
	if r.Purchase == nil {
		return ""
	}
	return r.Purchase.Steps[r.Purchase.Decided-1].Name
}

// reached returns when a purchase took the step with that number, from 1. A request without steps is all of them.
func (r *Record) reached(step int) time.Time {
	if r.Purchase == nil || step > len(r.Purchase.Steps) {
		return r.SentAt
	}
	return r.SentAt.Add(milliseconds(r.Purchase.Steps[step-1].AtMS))
}

// began returns when the request was sent that may have sold.
func (r *Record) began() time.Time {
	if r.Purchase == nil {
		return r.SentAt
	}
	return r.reached(min(r.Purchase.Sells, r.Purchase.Decided))
}

// decided returns when the reply came that is the outcome.
func (r *Record) decided() time.Time {
	if r.Purchase == nil || r.Purchase.Decided == len(r.Purchase.Steps) {
		return r.DoneAt
	}
	s := r.Purchase.Steps[r.Purchase.Decided-1]
	return r.SentAt.Add(milliseconds(s.AtMS + s.TookMS + s.PausedMS))
}

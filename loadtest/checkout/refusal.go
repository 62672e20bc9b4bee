package checkout

import (
	"cmp"
	"slices"

	"example.com/stock/loadtest"
)

// refusals checks that every refusal was justified.
func (j *judge) refusals() {
	for _, q := range j.requests {
		for _, r := range q.attempts {
			if r.Outcome != Refused {
				continue
			}
			j.looked(CheckRefusals, 1)
			if !j.fair(q, r) {
				note := j.fail
				if r.Problem == "reservation_expired" {
					note = j.soon // the reservation may not have been swept yet
				}
				note(CheckRefusals, "refusal", "op", string(q.ask.Op), "order", cmp.Or(q.ask.Ref, q.ask.Key),
					"problem", r.Problem, "detail", loadtest.ErrorText(r.Problem, r.Error))
			}
		}
	}
}

// tooMany is the problem of a reservation that would exceed a limit of the service.
const tooMany = "too_many_reservations"

// full reports whether the limit that a refusal names may have been reached at its time. The limit itself is a setting
// of the service, which the evidence does not have.
func (j *judge) full(q *request, r *Record) bool {
	switch r.Of {
	case "open":
		return int64(len(j.open(q.ask.Customer, r.SentAt, r.DoneAt))) >= r.Limit
	case "units":
		var units int64
		for _, n := range j.open(q.ask.Customer, r.SentAt, r.DoneAt) {
			units += n
		}
		for _, n := range merged(q.ask.Lines) {
			units += n
		}
		return units > r.Limit
	}
	return false
}

// fair reports whether the books justify a refusal at its time.
func (j *judge) fair(q *request, r *Record) bool {
	f := j.facts[q.ask.Ref]
	lines := merged(q.ask.Lines)
	if f != nil {
		lines = f.lines
	}
	any := func(wrong func(t *timeline, n int64) bool) bool {
		for sku, n := range lines {
			if t := j.timelines[sku]; t != nil && wrong(t, n) {
				return true
			}
		}
		return false
	}
	short := func() bool {
		return any(func(t *timeline, n int64) bool { return t.short(n, r.SentAt, r.DoneAt) })
	}
	limited := func() bool {
		return j.e.Limit > 0 && any(func(t *timeline, n int64) bool {
			return t.most(q.ask.Customer, r.SentAt, r.DoneAt)+n > j.e.Limit
		})
	}
	// begun reports whether op may have been done on f before the reply with the refusal.
	begun := func(op Op) bool {
		return slices.ContainsFunc(f.about(op), func(p *request) bool {
			return !p.refused() && !p.sent.After(r.DoneAt)
		})
	}
	switch r.Problem {
	case "sold_out":
		return q.cart() && short()
	case "limit_reached":
		return q.cart() && limited()
	case tooMany:
		return q.ask.Op == OpReserve && j.full(q, r)
	case "idempotency_key_reused":
		return q.cart() && j.misused(q, r.DoneAt)
	case "reservation_expired":
		return f != nil && q.ask.Op == OpConfirm && f.has("expire") && (short() || limited())
	case "wrong_state":
		if f == nil {
			return false
		}
		switch q.ask.Op {
		case OpConfirm:
			return begun(OpRelease)
		case OpRelease:
			return begun(OpConfirm) || f.has("expire")
		case OpExtend:
			return f.has("expire")
		}
	}
	return false
}

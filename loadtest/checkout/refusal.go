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

package checkout

import (
	"cmp"

	"example.com/stock/loadtest"
)

// refusals checks that who was refused had no chance.
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
					note = j.soon // it may not have been swept yet
				}
				note(CheckRefusals, "refusal", "op", string(q.ask.Op), "order", cmp.Or(q.ask.Ref, q.ask.Key),
					"problem", r.Problem, "detail", loadtest.ErrorText(r.Error))
			}
		}
	}
}

// fair reports whether the books allow for a refusal.
func (j *judge) fair(q *request, r *Record) bool {
	f := j.facts[q.ask.Ref]
	lines := merged(q.ask.Lines)
	if f != nil {
		lines = f.lines
	}
	short := func() bool {
		for sku, n := range lines {
			if j.least[sku] < n {
				return true
			}
		}
		return false
	}
	limited := func() bool {
		for sku, n := range lines {
			if j.e.Limit > 0 && j.most[[2]string{sku, q.ask.Customer}]+n > j.e.Limit {
				return true
			}
		}
		return false
	}
	switch r.Problem {
	case "sold_out":
		return (q.ask.Op == OpPlace || q.ask.Op == OpReserve) && short()
	case "limit_reached":
		return (q.ask.Op == OpPlace || q.ask.Op == OpReserve) && limited()
	case "idempotency_key_reused":
		return q.ask.Misuse
	case "reservation_expired":
		return f != nil && q.ask.Op == OpConfirm && f.has("expire") && (short() || limited())
	case "wrong_state":
		if f == nil {
			return false
		}
		switch q.ask.Op {
		case OpConfirm:
			return f.mayHave(OpRelease)
		case OpRelease:
			return f.mayHave(OpConfirm) || f.has("expire")
		case OpExtend:
			return f.has("expire")
		}
	}
	return false
}

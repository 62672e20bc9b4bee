package checkout

import (
	"maps"
	"net/http"
	"slices"
	"time"
)

// A request has all attempts of one request.
type request struct {
	ask      Ask
	attempts []*Record
	sent     time.Time // when the first attempt was sent
	done     *Record   // the first attempt that succeeded; nil: none
	last     *Record   // the last attempt that is not Again
	unsure   bool      // an attempt ended with Unknown
}

// settled reports whether the outcome of r is certain. A refusal settles nothing while an earlier attempt may be in
// progress; therefore the request is sent again after the run.
func (r *request) settled() bool {
	return r.done != nil || !r.unsure || r.last.Outcome == Refused && r.last.Settling
}

// refused reports whether r certainly had no effect.
func (r *request) refused() bool { return r.done == nil && r.settled() }

// cart reports whether r asks for units of a cart.
func (r *request) cart() bool { return r.ask.Op == OpPlace || r.ask.Op == OpReserve }

// group collects the attempts of each request.
func (j *judge) group() {
	byNumber := make(map[int]*request)
	for i := range j.e.Records {
		r := &j.e.Records[i]
		q := byNumber[r.Request]
		if q == nil {
			q = &request{ask: r.Ask, sent: r.SentAt}
			byNumber[r.Request] = q
			j.requests = append(j.requests, q)
			if r.Key != "" {
				j.byKey[r.Key] = append(j.byKey[r.Key], q)
			}
		}
		q.attempts = append(q.attempts, r)
		if r.Again {
			continue
		}
		q.last = r
		q.unsure = q.unsure || r.Outcome == Unknown
		if r.Outcome == Done && q.done == nil {
			q.done = r
		}
	}
	for _, q := range j.requests {
		if q.last == nil { // the history was changed, which history reports
			q.last = q.attempts[0]
		}
		if q.cart() && !q.settled() {
			j.openPerhaps[q.ask.Customer] = true
		}
	}
}

// misused reports whether the key of q was used before for another cart.
func (j *judge) misused(q *request, until time.Time) bool {
	return slices.ContainsFunc(j.byKey[q.ask.Key], func(p *request) bool {
		return p != q && p.ask.Op == q.ask.Op && p.ask.Customer == q.ask.Customer && !p.sent.After(until) &&
			!p.refused() && !maps.Equal(merged(p.ask.Lines), merged(q.ask.Lines))
	})
}

// history looks for records that contradict each other. The load generator writes none, so such a history was changed
// or is incomplete, and cannot be judged.
func (j *judge) history() {
	torn := func(r *Record, field string) { j.fail(CheckSettled, "torn", "seq", r.Seq, "field", field) }
	settling := false
	var busyUntil time.Time // the last reply before the first request that was settled
	for i := range j.e.Records {
		r := &j.e.Records[i]
		if !r.Settling && r.DoneAt.After(busyUntil) {
			busyUntil = r.DoneAt
		}
	}
	most := 0
	for i := range j.e.Records {
		r := &j.e.Records[i]
		most = max(most, r.Request)
		if field := r.wrong(j.e.Run); field != "" {
			torn(r, field)
		}
		switch {
		case r.Seq != i+1:
			torn(r, "seq")
		case settling && !r.Settling || r.Settling && r.SentAt.Before(busyUntil):
			torn(r, "settling")
		case r.SentAt.Before(j.e.StartedAt):
			torn(r, "sent_at")
		case !j.e.ReadAt.IsZero() && r.DoneAt.After(j.e.ReadAt):
			torn(r, "done_at")
		}
		settling = settling || r.Settling
	}
	if n := most - len(j.requests); n > 0 {
		j.fail(CheckSettled, "missing", "n", n)
	}
	for _, q := range j.requests {
		if q.ask.Misuse != (q.cart() && j.misused(q, q.sent)) {
			torn(q.attempts[0], "misuse")
		}
		done := false
		for i, r := range q.attempts {
			switch {
			case r.Attempt != i+1:
				torn(r, "attempt")
			case !r.Ask.same(&q.ask):
				torn(r, "request")
			case r.Again != done:
				torn(r, "again")
			case i > 0 && r.SentAt.Before(q.attempts[i-1].DoneAt):
				torn(r, "sent_at")
			}
			done = done || r.Outcome == Done
		}
	}
}

// same reports whether two attempts are of the same request.
func (a *Ask) same(b *Ask) bool {
	return a.Op == b.Op && a.Customer == b.Customer && a.Key == b.Key && a.Ref == b.Ref && a.TTL == b.TTL &&
		a.Misuse == b.Misuse && slices.Equal(a.Lines, b.Lines)
}

// lasts returns how long a reservation is to last.
func (a *Ask) lasts() time.Duration { return time.Duration(a.TTL) * time.Second }

// wrong returns the name of an invalid field of r, or "".
func (r *Record) wrong(run string) string {
	lasts := r.Op == OpReserve || r.Op == OpExtend
	lines := r.Op == OpPlace || r.Op == OpReserve || r.Op == OpDeliver
	replied := r.Outcome == Done || r.Outcome == Refused
	switch {
	case !slices.Contains(Ops(), r.Op):
		return "op"
	case !slices.Contains(Outcomes(), r.Outcome):
		return "outcome"
	case r.DoneAt.Before(r.SentAt):
		return "done_at"
	case (r.Op == OpDeliver) != (r.Customer == "") || r.Customer != "" && !ours(r.Customer, run):
		return "customer"
	case lasts != (r.TTL > 0) || r.TTL < 0:
		return "ttl_seconds"
	case (r.Op == OpPlace || r.Op == OpReserve) != (r.Ref == ""):
		return "ref"
	case lines != (len(r.Lines) > 0), r.Op == OpDeliver && (len(r.Lines) != 1 || r.Lines[0].SKU != r.Ref):
		return "lines"
	case r.Cut && replied:
		return "cut"
	case r.Outcome == Done && r.Status != http.StatusOK && r.Status != http.StatusCreated:
		return "status"
	case replied && (r.Outcome == Refused) != (r.Problem != ""):
		return "problem"
	case (r.Got != nil) != (r.Outcome == Done && r.Op != OpDeliver):
		return "got"
	case r.Number != 0 && (r.Outcome != Done || r.Op != OpDeliver):
		return "number"
	}
	return ""
}

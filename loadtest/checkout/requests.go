package checkout

import (
	"maps"
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
		if q.last == nil { // all attempts repeat one that is missing in the history
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

// lasts returns how long a reservation is to last.
func (a *Ask) lasts() time.Duration { return time.Duration(a.TTL) * time.Second }

package checkout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// Names of the checks.
const (
	CheckKeys     = "keys"     // one key is one order, however often it is sent
	CheckLaw      = "law"      // received = available + reserved + sold after every movement, none below zero, no gap
	CheckOnce     = "once"     // what was taken is given back at most once
	CheckCarts    = "carts"    // all of a cart, or nothing of it
	CheckTold     = "told"     // the books say what the customers were told
	CheckRefusals = "refusals" // who was refused had no chance
	CheckExpiry   = "expiry"   // a reservation holds until its time is over, and not longer
	CheckLimits   = "limits"   // no customer ever has more than the limit
	CheckEvents   = "events"   // every movement is announced, in order, as it was
	CheckSettled  = "settled"  // nothing is left of which nobody knows what became of it
)

// Checks returns the names of all checks, in the order in which reports list them.
func Checks() []string {
	return []string{
		CheckKeys, CheckLaw, CheckOnce, CheckCarts, CheckTold, CheckRefusals, CheckExpiry, CheckLimits, CheckEvents,
		CheckSettled,
	}
}

// Asks says what the check of that name asks.
func Asks(name string) words.Text { return phrases.Say("check." + name) }

// A Check is one question to the evidence.
type Check struct {
	Name       string       `json:"name"`
	Looked     int          `json:"looked"` // how many keys, movements, carts ... were looked at
	Failed     int          `json:"failed"`
	Examples   []words.Text `json:"examples,omitempty"`    // the first failures
	NotChecked words.Text   `json:"not_checked,omitempty"` // why it was not; zero: it was
}

// keepExamples is how many failures of a check are told.
const keepExamples = 3

// A Verdict is what the evidence says.
type Verdict struct {
	Finding  loadtest.Finding `json:"finding"`
	Sentence words.Text       `json:"sentence"`
	Checks   []Check          `json:"checks"` // in the order of Checks

	proved      bool // something was found that no later look at the books can remove
	early       bool // a later look may remove what was found, or find what cannot be told yet
	unannounced int  // movements of which no event was read
}

// Check returns the check of that name.
func (v *Verdict) Check(name string) *Check {
	i := slices.IndexFunc(v.Checks, func(c Check) bool { return c.Name == name })
	return &v.Checks[i]
}

// A request is all attempts of one.
type request struct {
	number   int
	ask      Ask
	attempts []*Record
	done     *Record // the first reply that said so; nil: none did
	last     *Record // of the attempts that are not Again
	unsure   bool    // an attempt ended with Unknown
}

// settled reports whether it is known for certain what became of r. A refusal settles nothing while an attempt before
// it may still be under way: when all was over, the request was sent once more.
func (r *request) settled() bool {
	return r.done != nil || !r.unsure || r.last.Outcome == Refused && r.last.Settling
}

// refused reports whether r is known to have done nothing.
func (r *request) refused() bool { return r.done == nil && r.settled() }

// A judge goes through the evidence.
type judge struct {
	e           *Evidence
	v           *Verdict
	requests    []*request
	facts       map[string]*fact // by id
	adjusts     map[string]int   // movements by reason
	least       map[string]int64 // the fewest units that were available of a SKU
	most        map[[2]string]int64
	openPerhaps map[string]bool   // customers with a cart of which it is not known what became of it
	latest      time.Time         // the last moment of which the evidence tells
	orphans     map[string]string // what no reply named, with its customer
}

// Judge judges a run from its evidence alone.
func Judge(e *Evidence) Verdict {
	j := &judge{
		e: e, v: new(Verdict), facts: make(map[string]*fact), adjusts: make(map[string]int),
		least: make(map[string]int64), most: make(map[[2]string]int64), openPerhaps: make(map[string]bool),
		orphans: make(map[string]string),
	}
	for _, name := range Checks() {
		j.v.Checks = append(j.v.Checks, Check{Name: name})
	}
	j.group()
	j.keys()
	j.ledgers()
	for _, id := range slices.Sorted(maps.Keys(j.facts)) {
		j.fact(j.facts[id])
	}
	j.orphaned()
	j.deliveries()
	j.refusals()
	j.shown()
	j.events()
	j.settled()
	j.decide()
	return *j.v
}

func (j *judge) looked(check string, n int) { j.v.Check(check).Looked += n }

// fail notes a failure of a check, with a text under "found".
func (j *judge) fail(check, key string, pairs ...any) {
	j.v.proved = j.v.proved || check != CheckSettled
	j.note(check, key, pairs...)
}

// soon notes a failure that may come right: sweepers and relays may be at work still, and books are not read at one
// moment.
func (j *judge) soon(check, key string, pairs ...any) {
	j.v.early = true
	j.note(check, key, pairs...)
}

func (j *judge) note(check, key string, pairs ...any) {
	c := j.v.Check(check)
	c.Failed++
	if len(c.Examples) < keepExamples {
		c.Examples = append(c.Examples, phrases.Say("found."+key, pairs...))
	}
}

// group puts the attempts of each request together, and learns what the replies told.
func (j *judge) group() {
	j.latest = j.e.ReadAt
	byNumber := make(map[int]*request)
	for i := range j.e.Records {
		r := &j.e.Records[i]
		q := byNumber[r.Request]
		if q == nil {
			q = &request{number: r.Request, ask: r.Ask}
			byNumber[r.Request] = q
			j.requests = append(j.requests, q)
		}
		q.attempts = append(q.attempts, r)
		if r.DoneAt.After(j.latest) {
			j.latest = r.DoneAt
		}
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
		if q.last == nil { // a history that was cut off may begin with what was sent again
			q.last = q.attempts[0]
		}
		cart := q.ask.Op == OpPlace || q.ask.Op == OpReserve
		if cart && !q.settled() {
			j.openPerhaps[q.ask.Customer] = true
		}
		if q.done == nil || q.done.Got == nil {
			continue
		}
		if cart && !q.ask.Misuse {
			j.learn(q.done.Got, q.ask.Op == OpReserve, q.ask.Customer, merged(q.ask.Lines))
		}
	}
	// What is about them, after all are known.
	for _, q := range j.requests {
		f := j.facts[q.ask.Ref]
		if f == nil || q.ask.Op == OpDeliver {
			continue
		}
		f.asked = append(f.asked, q)
		if q.done == nil {
			continue
		}
		switch got := q.done.Got; q.ask.Op {
		case OpConfirm:
			o := j.learn(got, false, q.ask.Customer, f.lines)
			o.of, o.late, f.became = f, got.Late, o
		case OpExtend:
			if got.ExpiresAt.After(f.expires) {
				f.expires = got.ExpiresAt
			}
		}
	}
	for _, q := range j.requests { // orders of confirmed reservations
		if f := j.facts[q.ask.Ref]; f != nil && q.ask.Op == OpCancel && !slices.Contains(f.asked, q) {
			f.asked = append(f.asked, q)
		}
	}
}

// learn adds what a reply told of an order or a reservation.
func (j *judge) learn(got *Thing, reservation bool, customer string, lines map[string]int64) *fact {
	id := got.OrderID
	if reservation {
		id = got.ReservationID
	}
	f := j.facts[id]
	if f == nil {
		f = &fact{
			id: id, customer: customer, lines: lines, reservation: reservation, expires: got.ExpiresAt,
			moves: make(map[string][]*Movement),
		}
		j.facts[id] = f
	}
	return f
}

// merged returns the units of a cart by SKU.
func merged(lines []Line) map[string]int64 {
	m := make(map[string]int64)
	for _, l := range lines {
		m[l.SKU] += l.Quantity
	}
	return m
}

// keys checks the replies to one key among themselves.
func (j *judge) keys() {
	owner := make(map[string]*request)
	for _, q := range j.requests {
		if q.ask.Key != "" {
			j.looked(CheckKeys, 1)
		}
		if q.done == nil {
			continue
		}
		if q.ask.Misuse {
			j.fail(CheckKeys, "misused", "key", q.ask.Key, "order", q.done.Got.id())
			continue
		}
		first := q.done
		for _, r := range q.attempts {
			if r.Outcome != Done || r == first {
				continue
			}
			switch {
			case r.Number != first.Number || r.Got.id() != first.Got.id():
				j.fail(CheckKeys, "two-ids", "key", cmp.Or(q.ask.Key, q.ask.Ref), "one", named(first),
					"other", named(r))
			case q.ask.Key != "" && !r.Replayed && r.Attempt > first.Attempt:
				j.fail(CheckKeys, "done-again", "key", q.ask.Key, "one", named(first))
			}
		}
		if first.Got == nil {
			continue
		}
		id := first.Got.id()
		if q.ask.Op == OpPlace || q.ask.Op == OpReserve {
			if other := owner[id]; other != nil {
				j.fail(CheckKeys, "two-keys", "one", other.ask.Key, "other", q.ask.Key, "order", id)
			}
			owner[id] = q
			if !maps.Equal(merged(first.Got.Lines), merged(q.ask.Lines)) {
				j.fail(CheckKeys, "other-lines", "order", id)
			}
		}
		if first.Got.Customer != q.ask.Customer {
			j.fail(CheckKeys, "other-customer", "order", id)
		}
	}
}

func (t *Thing) id() string {
	if t == nil {
		return ""
	}
	return cmp.Or(t.OrderID, t.ReservationID)
}

func named(r *Record) string {
	if r.Got == nil {
		return fmt.Sprintf("%d", r.Number)
	}
	return r.Got.id()
}

// settled counts what nobody knows.
func (j *judge) settled() {
	for _, q := range j.requests {
		j.looked(CheckSettled, 1)
		if !q.settled() {
			j.fail(CheckSettled, "open", "op", string(q.ask.Op), "key", cmp.Or(q.ask.Key, q.ask.Ref),
				"why", loadtest.ErrorText(q.last.Error))
		}
	}
	if j.e.Missing > 0 {
		j.fail(CheckSettled, "missing", "n", j.e.Missing)
	}
	if j.e.Unread.EN != "" {
		j.fail(CheckSettled, "unread", "why", j.e.Unread)
	}
}

// decide derives the finding.
func (j *judge) decide() {
	v := j.v
	var broken []words.Text
	for _, c := range v.Checks {
		if c.Failed > 0 && c.Name != CheckSettled {
			broken = append(broken, phrases.Say("check."+c.Name))
		}
	}
	sold := 0
	for _, f := range j.facts {
		if !f.reservation {
			sold++
		}
	}
	switch {
	case len(broken) > 0 && j.e.Unread.EN == "":
		v.Finding, v.Sentence = loadtest.Broken, say("sentence.broken", "what", words.Join(broken, say("comma")))
	case v.Check(CheckSettled).Failed > 0:
		v.Finding, v.Sentence = loadtest.Undecided, say("sentence.open", "n", v.Check(CheckSettled).Failed)
	case sold == 0:
		v.Finding, v.Sentence = loadtest.Undecided, say("sentence.nothing")
	case v.Check(CheckEvents).NotChecked.EN != "":
		v.Finding, v.Sentence = loadtest.Holds, say("sentence.holds-unheard", "orders", sold)
	default:
		v.Finding, v.Sentence = loadtest.Holds, say("sentence.holds", "orders", sold)
	}
}

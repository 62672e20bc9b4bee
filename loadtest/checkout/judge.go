package checkout

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"example.com/stock/internal/words"
	"example.com/stock/loadtest"
)

// Names of the checks.
const (
	CheckKeys     = "keys"     // one order for each key, however often it is sent
	CheckLaw      = "law"      // received = available + reserved + sold after every movement, none below zero, no gap
	CheckOnce     = "once"     // units are returned at most once
	CheckCarts    = "carts"    // all of a cart, or nothing of it
	CheckTold     = "told"     // the books agree with the replies to customers
	CheckRefusals = "refusals" // refusals are justified
	CheckExpiry   = "expiry"   // a reservation lasts until its expiry, and no longer
	CheckLimits   = "limits"   // no customer ever has more than the limit
	CheckEvents   = "events"   // every movement is announced, in order and unchanged
	CheckSettled  = "settled"  // no outcome stays unknown
)

// Checks returns the names of all checks, in the order in which reports list them.
func Checks() []string {
	return []string{
		CheckKeys, CheckLaw, CheckOnce, CheckCarts, CheckTold, CheckRefusals, CheckExpiry, CheckLimits, CheckEvents,
		CheckSettled,
	}
}

// Asks returns the question of the check of that name.
func Asks(name string) words.Text { return phrases.Say("check." + name) }

// A Check is one question to the evidence.
type Check struct {
	Name       string       `json:"name"`
	Looked     int          `json:"looked"` // number of keys, movements, carts ... checked
	Failed     int          `json:"failed"`
	Examples   []words.Text `json:"examples,omitempty"`    // the first failures
	NotChecked words.Text   `json:"not_checked,omitempty"` // why it was not checked; zero: it was
}

// keepExamples is the number of failures of a check that are kept.
const keepExamples = 3

// A Verdict is the judgement on the evidence.
type Verdict struct {
	Finding  loadtest.Finding `json:"finding"`
	Sentence words.Text       `json:"sentence"`
	Checks   []Check          `json:"checks"` // in the order of Checks

	early       bool // a later look may remove a fault, or decide an open question
	unannounced int  // movements of which no event was read
}

// Check returns the check of that name.
func (v *Verdict) Check(name string) *Check {
	i := slices.IndexFunc(v.Checks, func(c Check) bool { return c.Name == name })
	return &v.Checks[i]
}

// A judge checks the evidence.
type judge struct {
	e           *Evidence
	v           *Verdict
	requests    []*request
	byKey       map[string][]*request  // by idempotency key
	facts       map[string]*fact       // by id
	deliveries  map[string][]*Movement // by reason, which is the key
	timelines   map[string]*timeline   // by SKU
	openPerhaps map[string]bool        // customers with a cart of unknown outcome
	orphans     map[string]string      // customer of each order or reservation that no reply named
	skew        span                   // the store's clock ahead of ours
	measured    bool                   // whether skew is known
	now         time.Time              // when the books were read, by the store's clock; zero: not known
}

// Judge judges a run from its evidence alone.
func Judge(e *Evidence) Verdict {
	j := &judge{
		e: e, v: new(Verdict), byKey: make(map[string][]*request), facts: make(map[string]*fact),
		deliveries: make(map[string][]*Movement), timelines: make(map[string]*timeline),
		openPerhaps: make(map[string]bool), orphans: make(map[string]string),
	}
	for _, name := range Checks() {
		j.v.Checks = append(j.v.Checks, Check{Name: name})
	}
	j.group()
	j.learnAll()
	j.ledgers()
	j.clocks()
	j.keys()
	j.replies()
	for _, id := range slices.Sorted(maps.Keys(j.facts)) {
		j.fact(j.facts[id])
	}
	j.orphaned()
	j.delivered()
	j.refusals()
	j.shown()
	j.events()
	j.settled()
	j.decide()
	return *j.v
}

func (j *judge) looked(check string, n int) { j.v.Check(check).Looked += n }

// fail records a failure of a check, with a text under "found".
func (j *judge) fail(check, key string, pairs ...any) {
	c := j.v.Check(check)
	c.Failed++
	if len(c.Examples) < keepExamples {
		c.Examples = append(c.Examples, phrases.Say("found."+key, pairs...))
	}
}

// soon records a failure that a later look may remove, because sweepers and relays may be at work, and the books are
// not read at one moment.
func (j *judge) soon(check, key string, pairs ...any) {
	j.v.early = true
	j.fail(check, key, pairs...)
}

// settled counts the requests with an unknown outcome.
func (j *judge) settled() {
	for _, q := range j.requests {
		j.looked(CheckSettled, 1)
		if !q.settled() {
			j.fail(CheckSettled, "open", "op", string(q.ask.Op), "key", cmp.Or(q.ask.Key, q.ask.Ref),
				"why", loadtest.ErrorText(q.last.Problem, q.last.Error))
		}
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

package loadtest

import (
	"cmp"
	"embed"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/stock/internal/words"
)

//go:embed text
var textFiles embed.FS

var phrases = words.NewPhrasebook(textFiles, "text")

// say returns a text of this package.
func say(key string, pairs ...any) words.Text { return phrases.Say(key, pairs...) }

// A Finding is the result of judging a run. Undecided means that the evidence does not suffice, and is never a pass.
type Finding string

// The findings.
const (
	Holds     Finding = "holds"   // no update was lost, and the evidence is complete
	Broken    Finding = "broken"  // a fault is proved
	Undecided Finding = "unknown" // neither
)

// The kinds of Reasons.
const (
	AboutStock    = "stock"    // lost updates and other faults that a lock prevents
	AboutReplies  = "replies"  // contradictions of replies and orders: a fault of the service, whatever the strategy
	AboutEvidence = "evidence" // why the run cannot be decided
)

// A Reason describes one fact in plain words.
type Reason struct {
	About string     `json:"about"`
	Text  words.Text `json:"text"`
}

// maxCertificates is the number of certificates that a Verdict keeps. All are counted.
const maxCertificates = 10

// A Sold is one of the two orders of a Collision.
type Sold struct {
	OrderID   string `json:"order_id"`
	RequestID string `json:"request_id"`
	Instance  string `json:"instance"`
	Read      int64  `json:"read"`
	Remaining int64  `json:"remaining"`
}

// A Collision is a certificate of a lost update: two orders of one epoch that read the same version of the stock, or of
// the same segment of it, so that the later write overwrote the other. The proof needs no clock: every write adds one
// to the version, so no two orders that exclude each other can have read the same version.
type Collision struct {
	Store   string  `json:"store"`
	SKU     string  `json:"sku"`
	Epoch   uint64  `json:"epoch"`
	Segment int     `json:"segment,omitempty"` // 0: of the whole stock
	Version uint64  `json:"version"`
	Orders  [2]Sold `json:"orders"`
}

// A Verdict is the judgement on a run. Numbers named Units count units of stock; the others count requests or orders.
type Verdict struct {
	Finding Finding  `json:"finding"`
	Reasons []Reason `json:"reasons"` // none if it holds
	// Limits list what could not be checked because a mapped target does not report it. The finding does not cover
	// that.
	Limits []words.Text `json:"limits,omitempty"`

	// Kept reports whether the strategy kept its promise, which may be empty. It is false if that cannot be decided.
	Kept bool `json:"kept"`
	// RaceSeen reports whether an update was lost, whatever the promise.
	RaceSeen bool `json:"race_seen"`
	// Luck reports that nothing was lost, though no promise would have prevented it.
	Luck     bool       `json:"luck"`
	Sentence words.Text `json:"sentence"` // describes Kept, RaceSeen and Luck in words

	Sent     int `json:"sent"`
	Accepted int `json:"accepted"` // with Recovered
	Busy     int `json:"busy"`
	SoldOut  int `json:"sold_out"`
	Failed   int `json:"failed"`
	Unknown  int `json:"unknown"` // without Recovered

	Recovered  int `json:"recovered"`  // without a usable reply, but with an order in the store
	Phantoms   int `json:"phantoms"`   // accepted, but without an order in the store
	Denied     int `json:"denied"`     // busy, sold out or failed, but with an order in the store
	Duplicates int `json:"duplicates"` // orders beyond the first of one request
	Foreign    int `json:"foreign"`    // orders of requests that are not of this run
	Misserved  int `json:"misserved"`  // orders of another quantity than was requested
	Misquoted  int `json:"misquoted"`  // replies that contradict their order
	Swapped    int `json:"swapped"`    // orders that carry the id of another request of the run
	Misplaced  int `json:"misplaced"`  // replies that contradict another reply about their batch
	Undone     int `json:"undone"`     // orders of accepted requests that an earlier look saw, and the last did not

	InitialUnits   int64 `json:"initial_units"`
	AcceptedUnits  int64 `json:"accepted_units"`  // by replies and orders, each order once
	RemainingUnits int64 `json:"remaining_units"` // 0 if not Known
	Known          bool  `json:"remaining_known"`
	OversoldUnits  int64 `json:"oversold_units"` // max(0, accepted - initial)
	// LostUnits = accepted - (initial - remaining): units sold but not deducted. It is negative if units were deducted
	// but not sold.
	LostUnits int64 `json:"lost_units"`

	Collisions   int         `json:"collisions"` // pairs
	Certificates []Collision `json:"certificates,omitempty"`
	StaleReads   int         `json:"stale_reads"`    // orders that did not read what the previous order wrote
	FalseSoldOut int         `json:"false_sold_out"` // answered while there was enough, until after the answer
	FenceDrops   int         `json:"fence_drops"`    // writes with a smaller fence than an earlier write
	Linear       Linear      `json:"linear"`
	Instances    int         `json:"instances"` // number of instances that sold
	// no request was sent while another was in progress, so nothing could race
	OneAtATime bool `json:"one_at_a_time"`

	// LookedAt is when the final stock was read, the earliest time for several SKUs; zero: it was not read. The finding
	// does not cover later changes. LookedMS is the time from the last reply to LookedAt.
	LookedAt time.Time `json:"looked_at,omitzero"`
	LookedMS float64   `json:"looked_ms,omitempty"`

	late bool // a later read of the store may remove the fault, because the store may report late
	// skipped counts the StaleReads that an order which is reported late may explain.
	skipped int
	// pending is the number of units of orders that were refused later, and may be listed as they were before.
	pending int64
}

// Evidence is all evidence of a run.
type Evidence struct {
	Records  []Record
	Accounts []Account
	Promise  Promise
	// Shared reports whether other clients may sell from the same SKUs. Then their orders are counted and are no fault.
	// Otherwise an order without a request of the run makes the run undecided: another client may have sold, or the
	// service may have booked an order that nobody placed.
	Shared bool
}

// Judge judges a run. It sorts the records instead of comparing all pairs: 100,000 take a fraction of a second.
// docs/verdict.md lists every check with its name, what it compares and what it cannot see.
func Judge(e Evidence) Verdict {
	v, ledgers := examine(e)
	v.Linear = linear(v, ledgers)
	if v.Linear.Result == Illegal && !v.has(AboutStock) {
		v.reason(AboutStock, v.Linear.Why)
	}
	v.Sent = len(e.Records)
	v.OneAtATime = oneAtATime(e.Records)
	v.lookedAt(e)
	if v.AcceptedUnits == 0 && v.SoldOut == 0 {
		v.nothingSold(e.Records)
	}
	v.decide(e.Promise, slices.ContainsFunc(e.Accounts, func(a Account) bool { return a.Before.Mapped }))
	return *v
}

// lookedAt fills in LookedAt and LookedMS.
func (v *Verdict) lookedAt(e Evidence) {
	for i := range e.Accounts {
		at := e.Accounts[i].LookedAt
		if e.Accounts[i].After == nil || at.IsZero() {
			v.LookedAt = time.Time{}
			return
		}
		if v.LookedAt.IsZero() || at.Before(v.LookedAt) {
			v.LookedAt = at
		}
	}
	var last time.Time
	for i := range e.Records {
		if e.Records[i].DoneAt.After(last) {
			last = e.Records[i].DoneAt
		}
	}
	if !last.IsZero() && v.LookedAt.After(last) {
		v.LookedMS = float64(v.LookedAt.Sub(last)) / float64(time.Millisecond)
	}
}

// nothingSold adds the reason why there is nothing to judge. A redirect is not followed, so it counts as no sale.
func (v *Verdict) nothingSold(records []Record) {
	var first *Record
	n := 0
	for i := range records {
		if r := &records[i]; r.Location != "" {
			n++
			first = cmp.Or(first, r)
		}
	}
	if n == 0 {
		v.because(AboutEvidence, "nothing-sold")
		return
	}
	v.because(AboutEvidence, "redirected", "n", n, "status", first.Status, "to", first.Location)
}

// examine opens a ledger for each SKU, and does all checks except those of the order in time.
func examine(e Evidence) (*Verdict, []*ledger) {
	records, accounts := e.Records, e.Accounts
	v := &Verdict{Known: true}
	ledgers := make([]*ledger, 0, len(accounts))
	byKey := make(map[[2]string]*ledger, len(accounts))
	open := func(key [2]string, a *Account) *ledger {
		l := &ledger{Account: a, sku: key[1], verdict: v, shared: e.Shared}
		byKey[key] = l
		ledgers = append(ledgers, l)
		return l
	}
	for i := range accounts {
		open([2]string{accounts[i].Store, accounts[i].Before.SKU}, &accounts[i])
	}
	for i := range records {
		key := [2]string{records[i].Store, records[i].SKU}
		l := byKey[key]
		if l == nil {
			l = open(key, nil)
		}
		l.records = append(l.records, &records[i])
	}
	instances := make(map[string]bool)
	for _, l := range ledgers {
		l.several = len(ledgers) > 1
		l.check()
		for i := range l.sales {
			instances[l.sales[i].instance] = true
		}
	}
	v.Instances = len(instances)
	return v, ledgers
}

// oneAtATime reports whether each request was sent after the reply to the previous one.
func oneAtATime(records []Record) bool {
	bySent := make([]*Record, len(records))
	for i := range records {
		bySent[i] = &records[i]
	}
	slices.SortFunc(bySent, func(a, b *Record) int { return a.SentAt.Compare(b.SentAt) })
	for i, r := range bySent {
		if r.SentAt.IsZero() || i > 0 && r.SentAt.Before(bySent[i-1].DoneAt) {
			return false
		}
	}
	return true
}

func (v *Verdict) has(about string) bool {
	return slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.About == about })
}

// decide derives the finding from the reasons, and compares it with the promise. mapped means that the target made no
// promise, so that p is only the expectation.
func (v *Verdict) decide(p Promise, mapped bool) {
	stock, replies, evidence := v.has(AboutStock), v.has(AboutReplies), v.has(AboutEvidence)
	v.RaceSeen = stock
	switch {
	case stock || replies:
		v.Finding = Broken
	case evidence:
		v.Finding = Undecided
	default:
		v.Finding = Holds
	}
	// The strategy's promise is about stock. True replies are a promise of the service.
	if replies {
		v.Sentence = say("sentence.contradiction")
		return
	}
	v.Kept, v.Sentence = v.kept(p, mapped)
}

func (v *Verdict) kept(p Promise, mapped bool) (bool, words.Text) {
	open := v.Finding == Undecided // even without a promise: a run in which every request failed shows nothing
	switch p.Scope {
	case Nowhere:
		switch {
		case v.RaceSeen:
			return true, say("sentence.no-promise-raced", "damage", v.damage())
		case open:
			return false, say("sentence.no-promise-open")
		}
		if v.OneAtATime {
			return true, say("sentence.nothing-raced")
		}
		v.Luck = true
		return true, say("sentence.no-promise-luck")
	case Process:
		switch {
		case v.Instances > 1 && v.RaceSeen:
			return true, say("sentence.process-raced", "n", v.Instances, "damage", v.damage())
		case v.Instances > 1 && !open && v.OneAtATime:
			return true, say("sentence.nothing-raced")
		case v.Instances > 1 && !open:
			v.Luck = true
			return true, say("sentence.process-luck", "n", v.Instances)
		}
	case Cluster:
	default:
		return false, say("sentence.scope-unknown", "scope", strconv.Quote(p.Scope))
	}
	promise := say("promise.cluster")
	switch {
	case mapped:
		promise = say("promise.mapped")
	case p.Scope == Process:
		promise = say("promise.process")
	}
	switch v.Finding {
	case Holds:
		return true, say("sentence.kept", "promise", promise)
	case Broken:
		return false, say("sentence.broken", "promise", promise, "damage", v.damage())
	default:
		promise.EN = strings.ToUpper(promise.EN[:1]) + promise.EN[1:]
		return false, say("sentence.open", "promise", promise)
	}
}

// damage describes what was lost, as a clause of a sentence.
func (v *Verdict) damage() words.Text {
	var parts []words.Text
	add := func(n int64, key string) {
		if n > 0 {
			parts = append(parts, phrases.Say("damage."+key, "n", n))
		}
	}
	if v.Known {
		add(v.LostUnits, "lost")
		add(-v.LostUnits, "vanished")
	}
	add(v.OversoldUnits, "oversold")
	if len(parts) == 0 {
		add(int64(v.Collisions), "collided")
		add(int64(v.FalseSoldOut), "false-sold-out")
		add(int64(v.FenceDrops), "fences")
		add(int64(v.StaleReads), "stale")
	}
	if len(parts) == 0 {
		return say("damage.wrong")
	}
	return words.Join(parts, say("and"))
}

package loadtest

import (
	"cmp"
	"slices"
	"time"

	"example.com/stock/internal/words"
)

// A sale is an order that the store or a reply reported.
type sale struct {
	order, request, instance  string
	quantity, read, remaining int64
	segment                   int // the segment of read, remaining, version and fence; 0: none
	version, fence            uint64
	blind                     bool    // a foreign API that does not report read, remaining and version
	of                        *Record // the request of the order; nil: unknown
	booked                    *Order  // the order in the store; nil: only the reply reports it

	earliest time.Time // the first instant that its place among the versions allows
	first    *sale     // the sale whose sending time is earliest's
}

// A ledger compares replies and store for one SKU.
type ledger struct {
	*Account // nil: the store was not read
	sku      string
	several  bool // there are other ledgers
	shared   bool // other clients may also sell
	records  []*Record
	verdict  *Verdict

	sales      []sale  // each order once
	phantom    int64   // units of repeated replies with the same order
	unresolved int64   // units that may have been sold
	held       int64   // units that purchases in steps may hold which ended unsold
	example    *Record // the first of those
	otherEpoch int     // accepted in another epoch
	whole      bool    // every sale and the version that it read are known
}

func (v *Verdict) reason(about string, text words.Text) {
	v.Reasons = append(v.Reasons, Reason{about, text})
}

// because adds a reason from the catalogue, under "because".
func (v *Verdict) because(about, key string, pairs ...any) {
	v.reason(about, phrases.Say("because."+key, pairs...))
}

// because adds a reason. It names the SKU if there are several.
func (l *ledger) because(about, key string, pairs ...any) {
	l.reason(about, phrases.Say("because."+key, pairs...))
}

func (l *ledger) reason(about string, text words.Text) {
	if l.several {
		text = say("of-sku", "sku", l.sku, "what", text)
	}
	l.verdict.reason(about, text)
}

// check does all checks except those of the order in time.
func (l *ledger) check() {
	if l.Account == nil {
		l.Account = &Account{Gap: say("gap.unknown-sku")}
		l.Before.Epoch = epochOf(l.records)
	}
	if l.After != nil && l.After.Epoch != l.Before.Epoch {
		// The orders belong to another epoch, so it is no fault that ours are missing.
		account := *l.Account
		account.Complete = false
		l.Account = &account
	}
	l.match()
	l.undone()
	l.batches()
	l.sequence()
	l.balance()
	l.limits()
}

// epochOf returns the epoch of the first accepted record.
func epochOf(records []*Record) uint64 {
	for _, r := range records {
		if r.Receipt != nil {
			return r.Epoch
		}
	}
	return 0
}

// match pairs records with orders, counts both, and collects the sales.
func (l *ledger) match() {
	b, v := l.openBook(), l.verdict
	ours := make(map[string]bool, len(l.records))
	for _, r := range l.records {
		ours[r.RequestID] = true
	}
	phantoms, denied := v.Phantoms, v.Denied
	var example *Record // of a contradiction
	var early finding
	for _, r := range l.records {
		at := b.find(r)
		switch {
		case r.Outcome == Accepted:
			v.Accepted++
			l.accepted(b, r, at)
			if v.Phantoms > phantoms && example == nil {
				example = r
			}
		case at >= 0 && !b.matched[at] && r.early():
			for _, i := range b.parts(r, at) {
				b.matched[i] = true
			}
			v.count(r.Outcome)
			l.hold(r)
			early.add(say("found.early", "request", r.RequestID, "order", b.orders[at].OrderID, "step", r.ended()))
		case at >= 0 && !b.matched[at]:
			l.bookParts(b, at, r, 0)
			if r.Outcome == Unknown {
				v.Accepted++
				v.Recovered++
				continue
			}
			v.count(r.Outcome)
			v.Denied++
			if r.Purchase != nil && r.Purchase.Decided > r.Purchase.Sells { // it may still be listed as pending
				v.late, v.pending = true, v.pending+r.Quantity
			}
			if example == nil {
				example = r
			}
		default:
			v.count(r.Outcome)
			switch {
			case r.Outcome == Unknown && !l.Complete:
				l.unresolved += r.Quantity
			case r.Outcome != SoldOut:
				l.hold(r)
			}
		}
	}
	if n := v.Phantoms - phantoms; n > 0 {
		v.late = true
		l.because(AboutReplies, "phantoms", "n", n, "request", example.RequestID)
	}
	if n := v.Denied - denied; n > 0 {
		l.because(AboutReplies, "denied", "n", n, "request", example.RequestID)
	}
	l.agree(ours)
	if early.n > 0 {
		l.because(AboutEvidence, "early", "n", early.n, "first", early.first)
	}
	l.bookRest(b, ours)
}

// hold notes that a purchase in steps ended unsold: its cart may still hold units.
func (l *ledger) hold(r *Record) {
	if r.Purchase != nil {
		l.held += r.Quantity
		l.example = cmp.Or(l.example, r)
	}
}

// A finding counts occurrences, and describes the first.
type finding struct {
	n     int
	first words.Text
}

func (f *finding) add(text words.Text) {
	if f.n++; f.n == 1 {
		f.first = text
	}
}

// tell adds a finding to a number of the verdict, and a reason if there was any.
func (l *ledger) tell(number *int, about, key string, f finding) {
	*number += f.n
	if f.n > 0 {
		l.because(about, key, "n", f.n, "first", f.first)
	}
}

func (v *Verdict) count(o Outcome) {
	switch o {
	case Busy:
		v.Busy++
	case SoldOut:
		v.SoldOut++
	case Failed:
		v.Failed++
	case Unknown:
		v.Unknown++
	}
}

// accepted books an accepted reply, whose order has the index at in b.
func (l *ledger) accepted(b *book, r *Record, at int) {
	switch {
	case r.Epoch != l.Before.Epoch:
		l.otherEpoch++
	case at >= 0 && !b.matched[at]:
		l.bookParts(b, at, r, r.Fence)
	case at >= 0:
		l.verdict.Phantoms++
		l.phantom += r.Quantity
	default:
		if l.Complete {
			l.verdict.Phantoms++
		}
		l.sales = append(l.sales, saleOf(&Order{
			OrderID: r.OrderID, RequestID: r.RequestID, Instance: r.Instance, Quantity: r.Quantity, Read: r.Read,
			Remaining: r.Remaining, Version: r.Version, Fence: r.Fence, Segment: r.Segment, Blind: r.Blind,
		}, r))
	}
}

// saleOf returns the sale that an order of r reports, or that r's reply does. r may be nil.
func saleOf(o *Order, r *Record) sale {
	return sale{
		order: o.OrderID, request: o.RequestID, instance: o.Instance, quantity: o.Quantity, read: o.Read,
		remaining: o.Remaining, version: o.Version, fence: o.Fence, segment: o.Segment, blind: o.Blind, of: r,
	}
}

// bookParts makes sales of r's orders. at is the index of one of them.
func (l *ledger) bookParts(b *book, at int, r *Record, fence uint64) {
	parts := b.parts(r, at)
	whole := b.orders[at]
	whole.Quantity = 0
	for _, i := range parts {
		whole.Quantity += b.orders[i].Quantity
		whole.Blind = whole.Blind && b.orders[i].Blind
	}
	if whole.Blind && r.Receipt != nil && !r.Receipt.Blind && whole.Quantity == r.Quantity {
		// Only the reply reports what was read, for all parts together.
		for _, i := range parts {
			b.matched[i] = true
		}
		b.orders[at] = whole
		l.book(b, at, r, fence)
		return
	}
	for _, i := range parts {
		l.book(b, i, r, fence)
	}
}

// book makes a sale of the order with the index at. The order belongs to r if r is not nil. fence is the holder's
// fencing token from a reply, because in the lab the write may have none.
func (l *ledger) book(b *book, at int, r *Record, fence uint64) {
	b.matched[at] = true
	booked := b.orders[at]
	o := &b.orders[at]
	if o.Blind && r != nil && r.Receipt != nil && !r.Receipt.Blind && o.Quantity == r.Quantity {
		// The reply has the values that the list of orders lacks.
		o.Read, o.Remaining, o.Version, o.Blind = r.Read, r.Remaining, r.Version, false
	}
	s := saleOf(o, r)
	s.fence, s.booked = max(fence, o.Fence), &booked
	l.sales = append(l.sales, s)
}

// undone finds sales that an earlier look saw in the store and the last did not. A service may take back an order
// without a reply to its customer, and other clients may take back theirs.
func (l *ledger) undone() {
	accepted, ours := make(map[string]bool), make(map[string]bool)
	for _, r := range l.records {
		ours[r.RequestID] = true
		if r.Outcome == Accepted {
			accepted[r.OrderID], accepted[r.RequestID] = true, true
		}
	}
	delete(accepted, "")
	var sold, foreign finding
	for i := range l.Undone {
		switch o := &l.Undone[i]; {
		case accepted[o.OrderID] || accepted[o.RequestID]:
			sold.add(stranger(o.OrderID, o.RequestID))
		case !ours[o.RequestID] && !l.shared:
			foreign.add(stranger(o.OrderID, o.RequestID))
		}
	}
	l.tell(&l.verdict.Undone, AboutReplies, "undone", sold)
	l.tell(new(int), AboutEvidence, "undone-foreign", foreign)
}

// unreferenced reports whether no order of a mapped target has a request id.
func (l *ledger) unreferenced() bool {
	return l.Before.Mapped && len(l.Orders) > 0 &&
		!slices.ContainsFunc(l.Orders, func(o Order) bool { return o.RequestID != "" })
}

// bookRest makes sales of the orders that no reply reported.
func (l *ledger) bookRest(b *book, ours map[string]bool) {
	before := l.verdict.Duplicates
	var strangers []words.Text
	foreign := 0
	for at := range b.orders {
		if b.matched[at] {
			continue
		}
		if id := b.orders[at].RequestID; id != "" && ours[id] {
			l.verdict.Duplicates++
		} else {
			foreign++
			if len(strangers) < 3 {
				strangers = append(strangers, stranger(b.orders[at].OrderID, id))
			}
		}
		l.book(b, at, nil, 0)
	}
	if n := l.verdict.Duplicates - before; n > 0 {
		l.because(AboutReplies, "duplicates", "n", n)
	}
	l.verdict.Foreign += foreign
	switch {
	case foreign == 0 || l.shared:
	case l.unreferenced():
		l.because(AboutEvidence, "foreign-unreferenced", "n", foreign,
			"orders", words.Join(strangers, say("comma")), "variable", "{{request_id}}")
	default:
		l.because(AboutEvidence, "foreign", "n", foreign, "orders", words.Join(strangers, say("comma")))
	}
}

// stranger names an order whose request is not of this run.
func stranger(order, request string) words.Text {
	if request == "" {
		return say("found.of-no-request", "order", order)
	}
	return say("found.of-request", "order", order, "request", request)
}

// limit notes once what could not be checked.
func (l *ledger) limit(text words.Text) {
	if !slices.Contains(l.verdict.Limits, text) {
		l.verdict.Limits = append(l.verdict.Limits, text)
	}
}

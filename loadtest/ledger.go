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

	sales      []sale // each order once
	phantom    int64  // units of repeated replies with the same order
	unresolved int64  // units that may have been sold
	otherEpoch int    // accepted in another epoch
	whole      bool   // every sale and the version that it read are known
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

// A book finds orders by order id and by request id.
type book struct {
	orders    []Order
	byID      map[string]int
	byRequest map[string][]int
	matched   []bool // with a record
}

func (l *ledger) openBook() *book {
	b := &book{byID: make(map[string]int, len(l.Orders)), byRequest: make(map[string][]int, len(l.Orders))}
	for _, o := range l.Orders {
		if o.Epoch != l.Before.Epoch {
			continue
		}
		if _, again := b.byID[o.OrderID]; again {
			continue // a page that overlaps another
		}
		b.byID[o.OrderID] = len(b.orders)
		b.byRequest[o.RequestID] = append(b.byRequest[o.RequestID], len(b.orders))
		b.orders = append(b.orders, o)
	}
	b.matched = make([]bool, len(b.orders))
	return b
}

// find returns the index of r's order, or -1.
func (b *book) find(r *Record) int {
	if r.OrderID != "" {
		if i, ok := b.byID[r.OrderID]; ok {
			return i
		}
		if r.Outcome == Accepted {
			return -1
		}
	}
	if list := b.byRequest[r.RequestID]; len(list) > 0 && r.RequestID != "" {
		return list[0]
	}
	return -1
}

// parts returns the indexes of r's orders: the given one, and, if that has fewer units than r asked for, the others
// with the same request id. A service may write an order for each unit.
func (b *book) parts(r *Record, at int) []int {
	alone, id := []int{at}, b.orders[at].RequestID
	if id == "" || b.orders[at].Quantity >= r.Quantity {
		return alone
	}
	parts, units := alone, b.orders[at].Quantity
	for _, i := range b.byRequest[id] {
		if i != at && !b.matched[i] {
			parts, units = append(parts, i), units+b.orders[i].Quantity
		}
	}
	// If a proxy replaced the request ids, one id may belong to several requests.
	if id != r.RequestID && units != r.Quantity {
		return alone
	}
	slices.Sort(parts)
	return parts
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
	for _, r := range l.records {
		at := b.find(r)
		switch {
		case r.Outcome == Accepted:
			v.Accepted++
			l.accepted(b, r, at)
			if v.Phantoms > phantoms && example == nil {
				example = r
			}
		case at >= 0 && !b.matched[at]:
			l.bookParts(b, at, r, 0)
			if r.Outcome == Unknown {
				v.Accepted++
				v.Recovered++
				continue
			}
			v.count(r.Outcome)
			v.Denied++
			if example == nil {
				example = r
			}
		default:
			v.count(r.Outcome)
			if r.Outcome == Unknown && !l.Complete {
				l.unresolved += r.Quantity
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
	l.bookRest(b, ours)
}

// agree compares each request and its reply with its own orders.
func (l *ledger) agree(ours map[string]bool) {
	var misserved, misquoted, swapped finding
	for _, own := range l.ownSales() {
		s, r := own[0], own[0].of
		if took := total(own); !l.serves(took, r.Quantity) {
			misserved.add(phrases.Say("found.misserved", "request", r.RequestID, "asked", r.Quantity, "order", s.order,
				"took", took))
		}
		if what, said, ordered := misquote(r, joined(own)); what != "" {
			misquoted.add(phrases.Say("found.misquoted", "request", r.RequestID, "what", phrases.Say("figure."+what),
				"said", said, "order", s.order, "ordered", ordered))
		}
		switch id := s.request; {
		case id == "" || id == r.RequestID || r.RequestID == "":
		case ours[id]:
			swapped.add(phrases.Say("found.swapped", "order", s.order, "request", r.RequestID, "id", id))
		default:
			l.limit(say("limit.renamed"))
		}
	}
	l.tell(&l.verdict.Misserved, AboutReplies, "misserved", misserved)
	l.tell(&l.verdict.Misquoted, AboutReplies, "misquoted", misquoted)
	l.tell(&l.verdict.Swapped, AboutReplies, "swapped", swapped)
}

// ownSales returns the sales with orders of each request: one, or several if the service wrote an order for each unit.
func (l *ledger) ownSales() (list [][]*sale) {
	at := make(map[*Record]int, len(l.sales))
	for i := range l.sales {
		s := &l.sales[i]
		if s.of == nil || s.booked == nil {
			continue
		}
		n, known := at[s.of]
		if !known {
			n = len(list)
			at[s.of], list = n, append(list, nil)
		}
		list[n] = append(list[n], s)
	}
	return list
}

// serves reports whether orders of took units may serve a request for that many.
func (l *ledger) serves(took, asked int64) bool {
	switch {
	case took >= asked || !l.Before.Mapped:
		return took == asked
	case !l.Complete:
		return true // another part may not have been read
	}
	l.verdict.late = true
	return false
}

// misquote returns the first figure that the reply and the order tell differently, with both values; "": there is none.
func misquote(r *Record, o *Order) (what string, said, ordered any) {
	switch {
	case o == nil || r.Receipt == nil || r.Blind || o.Blind:
	case r.Read != o.Read:
		return "read", r.Read, o.Read
	case r.Remaining != o.Remaining:
		return "remaining", r.Remaining, o.Remaining
	case r.Version != o.Version:
		return "version", r.Version, o.Version
	case r.Segment != o.Segment:
		return "segment", r.Segment, o.Segment
	case r.Fence != o.Fence && r.Fence > 0 && o.Fence > 0: // in the lab a write may have none
		return "fence", r.Fence, o.Fence
	}
	return "", nil, nil
}

func total(parts []*sale) (units int64) {
	for _, s := range parts {
		units += s.quantity
	}
	return units
}

// joined returns the parts of one sale as one order. It returns nil if another sale came in between, because then the
// expected reply is unknown.
func joined(parts []*sale) *Order {
	if len(parts) == 1 {
		return parts[0].booked
	}
	parts = slices.SortedFunc(slices.Values(parts), func(a, b *sale) int { return cmp.Compare(a.version, b.version) })
	whole := *parts[0].booked
	for _, s := range parts[1:] {
		if s.booked.Blind || s.booked.Segment != whole.Segment || s.booked.Read != whole.Remaining {
			return nil
		}
		whole.Remaining, whole.Quantity = s.booked.Remaining, whole.Quantity+s.booked.Quantity
	}
	return &whole
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
		l.sales = append(l.sales, sale{
			order:     r.OrderID,
			request:   r.RequestID,
			instance:  r.Instance,
			quantity:  r.Quantity,
			read:      r.Read,
			remaining: r.Remaining,
			version:   r.Version,
			fence:     r.Fence,
			segment:   r.Segment,
			blind:     r.Blind,
			of:        r,
		})
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
	l.sales = append(l.sales, sale{
		order:     o.OrderID,
		request:   o.RequestID,
		instance:  o.Instance,
		quantity:  o.Quantity,
		read:      o.Read,
		remaining: o.Remaining,
		version:   o.Version,
		fence:     max(fence, o.Fence),
		segment:   o.Segment,
		blind:     o.Blind,
		of:        r,
		booked:    &booked,
	})
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

package loadtest

import (
	"cmp"
	"slices"

	"example.com/stock/internal/words"
)

// balance checks that initial = remaining + sold.
func (l *ledger) balance() {
	v := l.verdict
	initial := l.Before.Quantity
	accepted := l.phantom
	var booked int64 // of orders in the store
	for i := range l.sales {
		accepted += l.sales[i].quantity
		if l.sales[i].booked != nil {
			booked += l.sales[i].quantity
		}
	}
	v.InitialUnits += initial
	v.AcceptedUnits += accepted
	if oversold := accepted - initial; oversold > 0 && l.Before.SKU != "" {
		v.OversoldUnits += oversold
		text := say("because.oversold", "n", oversold, "sold", accepted, "initial", initial)
		if last := l.excess(oversold); len(last) > 0 {
			text = say("because.excess", "what", text, "orders", words.Join(last, say("comma")))
		}
		l.reason(AboutStock, text)
	}
	if l.otherEpoch > 0 || l.After != nil && l.After.Epoch != l.Before.Epoch {
		v.Known = false
		l.because(AboutEvidence, "set-again")
		return
	}
	if l.After == nil {
		v.Known = false
		l.because(AboutEvidence, "no-final-stock", "why", l.Gap)
		return
	}
	remaining := l.After.Quantity
	gone := initial - remaining
	lost := accepted - gone
	v.RemainingUnits += remaining
	v.LostUnits += lost
	if lost != 0 {
		v.late = true
	}
	if l.Before.Unlisted {
		l.byReplies(lost, gone)
		return
	}
	if !l.Complete {
		l.gap(lost, gone)
		return
	}
	switch {
	case lost > 0:
		l.because(AboutStock, "lost", "n", lost, "sold", accepted, "gone", gone, "initial", initial, "left", remaining)
	case lost < 0 && -lost <= l.held:
		l.because(AboutEvidence, "held", "n", -lost, "request", l.example.RequestID, "step", l.example.ended())
	case lost < 0:
		l.because(AboutStock, "vanished", "n", -lost, "gone", gone, "initial", initial, "left", remaining,
			"sold", accepted)
	}
	if l.After.Sold != booked && !l.Before.Mapped {
		v.late = true
		l.because(AboutEvidence, "miscounted", "counted", l.After.Sold, "ordered", booked)
	}
}

// mostExcess is the number of orders that are named when too many were sold.
const mostExcess = 5

// excess returns the ids of the orders of the last units that were sold, those answered last.
func (l *ledger) excess(units int64) (last []words.Text) {
	sales := slices.DeleteFunc(slices.Clone(l.sales), func(s sale) bool { return s.of == nil || s.order == "" })
	slices.SortStableFunc(sales, func(a, b sale) int { return b.of.decided().Compare(a.of.decided()) })
	for _, s := range sales {
		if units <= 0 || len(last) == mostExcess {
			break
		}
		units -= s.quantity
		last = append(last, words.Same(s.order))
	}
	return last
}

// gap judges without all orders. Requests with an unknown outcome and other clients can only have sold more, so units
// that are lost already stay lost.
func (l *ledger) gap(lost, gone int64) {
	l.verdict.late = true // a list may be only a part because orders appeared while it was read
	if lost > 0 {
		l.because(AboutStock, "lost-at-least", "n", lost, "sold", lost+gone, "gone", gone)
	}
	l.because(AboutEvidence, "no-orders", "why", l.Gap)
	if l.unresolved > 0 {
		l.because(AboutEvidence, "unresolved", "n", l.unresolved)
	}
}

// byReplies judges a target that lists no orders. Requests with an unknown outcome may have sold more, at most the
// units that they asked for.
func (l *ledger) byReplies(lost, gone int64) {
	most := lost + l.unresolved
	switch {
	case lost > 0:
		l.because(AboutStock, "lost-by-replies", "n", lost, "sold", lost+gone, "gone", gone)
	case most < 0 && -most <= l.held:
		l.because(AboutEvidence, "held", "n", -most, "request", l.example.RequestID, "step", l.example.ended())
	case most < 0:
		l.because(AboutStock, "vanished-by-replies", "n", -most, "gone", gone, "sold", most+gone)
	}
	if l.unresolved > 0 {
		l.because(AboutEvidence, "unresolved-by-replies", "n", l.unresolved)
	}
}

// sequence checks the sales in the order of the versions that they read, segment by segment if the stock has segments:
// each has its own versions.
//
// If no two sales read the same version, and the orders are complete, nothing was lost: the n-th write makes version n,
// so the first sale must have read 0, the second 1 (0 is taken), and so on. Then every write follows the one before it.
// Moving units between two sales from a segment also makes a version. So in a segment, a sale follows another only if
// their versions are successive.
func (l *ledger) sequence() {
	slices.SortFunc(l.sales, func(a, b sale) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.version, b.version),
			cmp.Compare(a.order, b.order))
	})
	sales := l.sales
	if l.Before.Mapped {
		sales = slices.DeleteFunc(slices.Clone(sales), func(s sale) bool { return s.blind })
	}
	l.whole = l.Complete && len(sales) == len(l.sales) && l.held == 0
	var found misread
	collisions := l.verdict.Collisions
	for _, segment := range split(sales, func(s *sale) uint64 { return uint64(s.segment) }) {
		l.inSegment(segment, &found)
	}
	l.explain(l.verdict.Collisions-collisions, &found)
}

// A misread lists the sales of a SKU that are wrong in the order of their versions.
type misread struct {
	stale  []*sale // did not read what the sale before wrote
	drops  []*sale // have a smaller fence than an earlier sale
	unlike []*sale // did not write what they read less what they sold
}

// split returns the parts of sales with the same key, which must stand together.
func split(sales []sale, key func(*sale) uint64) (parts [][]sale) {
	from := 0
	for i := range sales {
		if i+1 == len(sales) || key(&sales[i+1]) != key(&sales[i]) {
			parts = append(parts, sales[from:i+1])
			from = i + 1
		}
	}
	return parts
}

// inSegment checks the sales of one segment.
func (l *ledger) inSegment(sales []sale, found *misread) {
	var top uint64 // the largest fence of smaller versions
	var last *sale // the only sale that read the previous version; nil: there were several
	for i, group := range split(sales, func(s *sale) uint64 { return s.version }) {
		l.collide(group)
		var only *sale
		if len(group) == 1 {
			only = &group[0]
		}
		if only != nil && l.misses(last, only, i == 0) {
			found.stale = append(found.stale, only)
			if l.skips(last, only) {
				l.verdict.skipped++
				l.verdict.late = true
			}
		}
		next := top
		for k := range group {
			s := &group[k]
			if s.read-s.quantity != s.remaining {
				found.unlike = append(found.unlike, s)
			}
			if s.fence > 0 && s.fence < top { // writes of one version have no order among themselves
				found.drops = append(found.drops, s)
			}
			next = max(next, s.fence)
		}
		top, last = next, only
	}
}

// explain counts what is wrong in the order of the versions, and adds the reasons.
func (l *ledger) explain(collisions int, found *misread) {
	v := l.verdict
	v.StaleReads += len(found.stale)
	v.FenceDrops += len(found.drops)
	if collisions > 0 {
		c := v.example(l.sku)
		one, other := c.Orders[0].name(), c.Orders[1].name()
		switch {
		case l.Before.Mapped:
			l.because(AboutStock, "same-quantity", "n", collisions, "read", c.Orders[0].Read, "one", one,
				"other", other)
		case c.Segment > 0:
			l.because(AboutStock, "same-version-of-segment", "n", collisions, "version", c.Version,
				"segment", c.Segment, "one", one, "other", other)
		default:
			l.because(AboutStock, "same-version", "n", collisions, "version", c.Version, "one", one, "other", other)
		}
	}
	// A collision implies stale reads, so they are reported only without one.
	if n := len(found.stale); n > 0 && collisions == 0 {
		l.because(AboutStock, "stale", "n", n, "first", found.stale[0].order, "read", found.stale[0].read)
	}
	if n := len(found.unlike); n > 0 {
		first := found.unlike[0]
		l.because(AboutStock, "wrong-write", "n", n, "first", first.order, "read", first.read, "sold", first.quantity,
			"wrote", first.remaining)
	}
	if n := len(found.drops); n > 0 {
		l.because(AboutStock, "fence-drop", "n", n, "first", found.drops[0].order, "fence", found.drops[0].fence)
	}
}

// misses reports whether s should have read what last wrote, and did not. If orders are missing, it compares only
// sales with successive versions.
func (l *ledger) misses(last, s *sale, first bool) bool {
	switch {
	case first:
		return l.whole && s.segment == 0 && s.read != l.Before.Quantity
	case last == nil:
		return false
	case l.whole && s.segment == 0 || s.version == last.version+1:
		return s.read != last.remaining
	}
	return false
}

// skips reports whether s read fewer units than last wrote, and so sales in between that are not known may explain it.
// last is nil for the first sale.
func (l *ledger) skips(last, s *sale) bool {
	if last == nil {
		return s.read < l.Before.Quantity
	}
	return s.read < last.remaining && s.version > last.version+1
}

// collide counts the pairs in group, whose sales all read the same version, and keeps some as certificates.
func (l *ledger) collide(group []sale) {
	v := l.verdict
	v.Collisions += len(group) * (len(group) - 1) / 2
	for i := 1; i < len(group) && (len(v.Certificates) < maxCertificates || v.example(l.sku) == nil); i++ {
		v.Certificates = append(v.Certificates, Collision{
			Store: l.Store, SKU: l.sku, Epoch: l.Before.Epoch, Segment: group[i].segment, Version: group[i].version,
			Orders: [2]Sold{group[i-1].sold(), group[i].sold()},
		})
	}
}

func (s *sale) sold() Sold {
	return Sold{OrderID: s.order, RequestID: s.request, Instance: s.instance, Read: s.read, Remaining: s.remaining}
}

// name returns the order id, and the instance if it is known.
func (s *Sold) name() words.Text {
	if s.Instance == "" {
		return words.Same(s.OrderID)
	}
	return say("found.order-on", "order", s.OrderID, "instance", s.Instance)
}

// example returns the first certificate about sku, or nil.
func (v *Verdict) example(sku string) *Collision {
	for i := range v.Certificates {
		if v.Certificates[i].SKU == sku {
			return &v.Certificates[i]
		}
	}
	return nil
}

// limits notes what could not be checked because a mapped target does not report it. Our own service reports
// everything.
func (l *ledger) limits() {
	if !l.Before.Mapped {
		return
	}
	if l.Before.Unlisted {
		l.limit(say("limit.unlisted"))
	}
	if l.unreferenced() {
		l.limit(say("limit.unreferenced", "variable", "{{request_id}}"))
	}
	blind := 0
	for i := range l.sales {
		if l.sales[i].blind {
			blind++
		}
	}
	switch {
	case blind == len(l.sales):
		l.limit(say("limit.blind"))
	case blind > 0:
		l.limit(say("limit.some-blind"))
		fallthrough
	default:
		l.limit(say("limit.no-versions"))
	}
}

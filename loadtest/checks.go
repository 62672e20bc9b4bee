package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// balance checks the sums: initial = remaining + sold, or the run is wrong.
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
		l.because(AboutStock, "oversold by %s: %d sold of %d", plural(oversold, "unit"), accepted, initial)
	}
	if l.otherEpoch > 0 || l.After != nil && l.After.Epoch != l.Before.Epoch {
		v.Known = false
		l.because(AboutEvidence, "the stock was set again during the run, so its quantity says nothing about the run")
		return
	}
	if l.After == nil {
		v.Known = false
		l.because(AboutEvidence, "the final stock could not be read: %s", l.Gap)
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
		l.because(AboutStock, "%s lost: %d sold, but the stock went down by %d, from %d to %d", plural(lost, "unit"),
			accepted, gone, initial, remaining)
	case lost < 0:
		l.because(AboutStock, "%s vanished: the stock went down by %d, from %d to %d, but only %d sold",
			plural(-lost, "unit"), gone, initial, remaining, accepted)
	}
	if l.After.Sold != booked && !l.Before.Mapped {
		v.late = true
		l.because(AboutEvidence, "the store counts %d units sold, its orders hold %d", l.After.Sold, booked)
	}
}

// gap judges without all orders. Requests with an unknown outcome, and those of others, can only have sold more: units
// that are lost already stay lost.
func (l *ledger) gap(lost, gone int64) {
	if lost > 0 {
		l.because(AboutStock, "%s lost: %d sold at least, but the stock went down by %d", plural(lost, "unit"),
			lost+gone, gone)
	}
	l.because(AboutEvidence, "the orders could not be read in one piece with the stock: %s", l.Gap)
	if l.unresolved > 0 {
		l.because(AboutEvidence, "outcome unknown for %s", plural(l.unresolved, "unit"))
	}
}

// byReplies judges a target that lists no orders. Requests with an unknown outcome may have sold more, at most the
// units that they asked for.
func (l *ledger) byReplies(lost, gone int64) {
	most := lost + l.unresolved
	switch {
	case lost > 0:
		l.because(AboutStock, "%s lost: %d were accepted at least, but the stock went down by %d", plural(lost, "unit"),
			lost+gone, gone)
	case most < 0:
		l.because(AboutStock, "%s vanished: the stock went down by %d, but %d were accepted at most",
			plural(-most, "unit"), gone, most+gone)
	}
	if l.unresolved > 0 {
		l.because(AboutEvidence, "outcome unknown for %s, and there are no orders to find them among",
			plural(l.unresolved, "unit"))
	}
}

// sequence checks the sales in the order of the versions that they read, segment by segment if the stock has segments:
// each has its own versions.
//
// If no two sales read the same version, and the orders are complete, nothing was lost: the n-th write makes version n,
// so the first sale must have read 0, the second 1 (0 is taken), and so on. Then every write follows the one before it.
// Between two sales from a segment units may have been moved, which makes a version too. So there, a sale follows
// another only if their versions are neighbours.
func (l *ledger) sequence() {
	slices.SortFunc(l.sales, func(a, b sale) int {
		return cmp.Or(cmp.Compare(a.segment, b.segment), cmp.Compare(a.version, b.version),
			cmp.Compare(a.order, b.order))
	})
	sales := l.sales
	if l.Before.Mapped {
		sales = slices.DeleteFunc(slices.Clone(sales), func(s sale) bool { return s.blind })
	}
	l.whole = l.Complete && len(sales) == len(l.sales)
	v := l.verdict
	collisions, stale, drops, wrong := v.Collisions, v.StaleReads, v.FenceDrops, 0
	var firstStale, firstDrop, firstWrong *sale
	var top uint64 // the largest fence of smaller versions
	var last *sale // the only sale that read the previous version; nil: there were several
	for from := 0; from < len(sales); {
		to := from + 1
		for to < len(sales) && sales[to].version == sales[from].version && sales[to].segment == sales[from].segment {
			to++
		}
		group := sales[from:to]
		l.collide(group)
		first := &group[0]
		if from > 0 && sales[from-1].segment != first.segment {
			top, last = 0, nil
		}
		if len(group) == 1 && l.follows(last, first, from == 0) {
			v.StaleReads++
			firstStale = cmp.Or(firstStale, first)
		}
		for i := range group {
			s := &group[i]
			if s.read-s.quantity != s.remaining {
				wrong++
				firstWrong = cmp.Or(firstWrong, s)
			}
			// Writes of one version have no order among themselves.
			if s.fence > 0 && s.fence < top {
				v.FenceDrops++
				firstDrop = cmp.Or(firstDrop, s)
			}
		}
		for i := range group {
			top = max(top, group[i].fence)
		}
		last = nil
		if len(group) == 1 {
			last = first
		}
		from = to
	}
	if n := v.Collisions - collisions; n > 0 {
		c := v.example(l.sku)
		same, what := "version", fmt.Sprintf("version %d%s", c.Version, c.of())
		if l.Before.Mapped {
			same, what = "quantity", fmt.Sprint(c.Orders[0].Read)
		}
		l.because(AboutStock, "%s of orders read the same %s, so that one overwrote the other: %s was read by order "+
			"%s and by order %s", plural(n, "pair"), same, what, c.Orders[0].name(), c.Orders[1].name())
	}
	// A collision implies stale reads, so they are reported only without one.
	if n := v.StaleReads - stale; n > 0 && v.Collisions == collisions {
		l.because(AboutStock, "%s did not read what the order before wrote; the first is %s, which read %d",
			plural(n, "order"), firstStale.order, firstStale.read)
	}
	if wrong > 0 {
		l.because(AboutStock, "%s did not write the quantity read less the quantity sold; the first is %s: %d - %d "+
			"is not %d", plural(wrong, "order"), firstWrong.order, firstWrong.read, firstWrong.quantity,
			firstWrong.remaining)
	}
	if n := v.FenceDrops - drops; n > 0 {
		l.because(AboutStock, "%s with a smaller fence than an earlier write; the first is order %s with fence %d",
			plural(n, "write"), firstDrop.order, firstDrop.fence)
	}
}

// follows reports whether s should have read what last wrote, and did not. If orders are missing, it compares
// neighbours only.
func (l *ledger) follows(last, s *sale, first bool) bool {
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

// collide counts the pairs in group, whose sales all read the same version, and keeps some as certificates.
func (l *ledger) collide(group []sale) {
	v := l.verdict
	v.Collisions += len(group) * (len(group) - 1) / 2
	for i := 1; i < len(group) && (len(v.Certificates) < keep || v.example(l.sku) == nil); i++ {
		v.Certificates = append(v.Certificates, Collision{
			Store: l.Store, SKU: l.sku, Epoch: l.Before.Epoch, Segment: group[i].segment, Version: group[i].version,
			Orders: [2]Sold{group[i-1].sold(), group[i].sold()},
		})
	}
}

// of names the segment in a text, if there is one.
func (c *Collision) of() string {
	if c.Segment == 0 {
		return ""
	}
	return fmt.Sprintf(" of segment %d", c.Segment)
}

func (s *sale) sold() Sold {
	return Sold{OrderID: s.order, RequestID: s.request, Instance: s.instance, Read: s.read, Remaining: s.remaining}
}

// name returns the order id, and the instance if it is known.
func (s *Sold) name() string {
	if s.Instance == "" {
		return s.OrderID
	}
	return s.OrderID + " (" + s.Instance + ")"
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

// overlaps counts the holds that began while another lasted. The sales of a batch hold together: they are one hold.
func (l *ledger) overlaps() {
	type hold struct{ from, to time.Time }
	holds := make([]hold, 0, len(l.records))
	seen := make(map[string]bool) // batches
	for _, r := range l.records {
		if r.Receipt == nil || r.AcquiredAt.IsZero() || !r.ReleasedAt.After(r.AcquiredAt) ||
			r.Batch != nil && seen[r.Batch.ID] {
			continue
		}
		if r.Batch != nil {
			seen[r.Batch.ID] = true
		}
		holds = append(holds, hold{r.AcquiredAt, r.ReleasedAt})
	}
	slices.SortFunc(holds, func(a, b hold) int { return a.from.Compare(b.from) })
	var end time.Time
	for _, h := range holds {
		if h.from.Before(end) {
			l.verdict.Overlaps++
			common := min(end.Sub(h.from), h.to.Sub(h.from))
			l.verdict.LongestOverlapMS = max(l.verdict.LongestOverlapMS, float64(common)/float64(time.Millisecond))
		}
		if h.to.After(end) {
			end = h.to
		}
	}
}

// limits notes what could not be checked because the target does not tell it. Our own service tells everything.
func (l *ledger) limits() {
	if !l.Before.Mapped {
		return
	}
	say := l.limit
	if l.Before.Unlisted {
		say("The API lists no orders, so the accepted replies were counted instead: an order without a reply and a " +
			"reply without an order are not seen, and a sale by somebody else looks like a mistake.")
	}
	blind := 0
	for i := range l.sales {
		if l.sales[i].blind {
			blind++
		}
	}
	switch {
	case blind == len(l.sales):
		say("The API does not tell what a sale read: lost updates show in the sum, but no two orders can be named " +
			"that collided.")
	case blind > 0:
		say("Of some orders it is not known what they read: they cannot be named where they collided.")
		fallthrough
	default:
		say("The API counts no versions: two orders that read the same quantity count as a collision, which is right " +
			"as long as nobody adds stock.")
	}
}

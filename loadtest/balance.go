package loadtest

// balance does the sums: initial = remaining + sold, or the run is wrong.
func (l *ledger) balance() {
	v := l.verdict
	initial := l.Before.Quantity
	accepted := l.phantom
	var booked int64 // by orders in the store
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
		l.because(AboutStock, "%s lost: %d sold, but the stock went down by %d, from %d to %d", plural(lost, "unit"), accepted, gone, initial, remaining)
	case lost < 0:
		l.because(AboutStock, "%s vanished: the stock went down by %d, from %d to %d, but only %d sold", plural(-lost, "unit"), gone, initial, remaining, accepted)
	}
	if l.After.Sold != booked && !l.Before.Mapped {
		v.late = true
		l.because(AboutEvidence, "the store counts %d units sold, its orders hold %d", l.After.Sold, booked)
	}
}

// gap judges without all orders. Requests with an unknown outcome, and those of others, may have sold more, never less: what is lost already stays lost.
func (l *ledger) gap(lost, gone int64) {
	if lost > 0 {
		l.because(AboutStock, "%s lost: %d sold at least, but the stock went down by %d", plural(lost, "unit"), lost+gone, gone)
	}
	l.because(AboutEvidence, "the orders could not be read in one piece with the stock: %s", l.Gap)
	if l.unresolved > 0 {
		l.because(AboutEvidence, "outcome unknown for %s", plural(l.unresolved, "unit"))
	}
}

// byReplies judges a target that lists no orders. Requests with an unknown outcome may have sold more, up to their units.
func (l *ledger) byReplies(lost, gone int64) {
	most := lost + l.unresolved
	switch {
	case lost > 0:
		l.because(AboutStock, "%s lost: %d were accepted at least, but the stock went down by %d", plural(lost, "unit"), lost+gone, gone)
	case most < 0:
		l.because(AboutStock, "%s vanished: the stock went down by %d, but %d were accepted at most", plural(-most, "unit"), gone, most+gone)
	}
	if l.unresolved > 0 {
		l.because(AboutEvidence, "outcome unknown for %s, and there are no orders to find them among", plural(l.unresolved, "unit"))
	}
}

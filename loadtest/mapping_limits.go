package loadtest

// limits notes what a target did not tell, and so could not be checked. Our own service tells all.
func (l *ledger) limits() {
	if !l.Before.Mapped {
		return
	}
	say := l.limit
	if l.Before.Unlisted {
		say("The API lists no orders, so the accepted replies were counted instead: an order without a reply and a reply without an order are not seen, " +
			"and a sale by somebody else looks like a mistake.")
	}
	blind := 0
	for i := range l.sales {
		if l.sales[i].blind {
			blind++
		}
	}
	switch {
	case blind == len(l.sales):
		say("The API does not tell what a sale read: lost updates show in the sum, but no two orders can be named that collided.")
	case blind > 0:
		say("Of some orders it is not known what they read: they cannot be named where they collided.")
		fallthrough
	default:
		say("The API counts no versions: two orders that read the same quantity count as a collision, which is right as long as nobody adds stock.")
	}
}

package checkout

// shown compares every field of the orders and reservations that the service shows with the ledger and the replies.
func (j *judge) shown() {
	seen := make(map[string]bool)
	for i := range j.e.Orders {
		o := &j.e.Orders[i]
		j.looked(CheckTold, 1)
		f := j.facts[o.OrderID]
		switch {
		case seen[o.OrderID]:
			j.fail(CheckTold, "listed-twice", "order", o.OrderID)
		case f != nil && !f.reservation:
			j.same(f, o, f.order())
		case j.orphans[o.OrderID] == "" && !j.openPerhaps[o.Customer] && !j.confirmOpen(o.Customer):
			j.fail(CheckKeys, "orphan", "order", o.OrderID, "customer", o.Customer)
		}
		seen[o.OrderID] = true
	}
	for i := range j.e.Reservations {
		r := &j.e.Reservations[i]
		f := j.facts[r.ReservationID]
		if f == nil || !f.reservation { // a missing order is reported below
			continue
		}
		if seen[f.id] {
			j.fail(CheckTold, "listed-twice", "order", f.id)
		}
		seen[f.id] = true
		due := f.held()
		if f.open(OpConfirm) { // the confirmation may have made an order that no reply named
			due.State, due.OrderID = r.State, r.OrderID
		}
		if f.open(OpExtend) {
			due.ExpiresAt = r.ExpiresAt
		}
		j.same(f, r, due)
	}
	for id, f := range j.facts {
		switch {
		case seen[id]:
		case f.reservation:
			j.fail(CheckTold, "gone", "order", id)
		default:
			j.fail(CheckTold, "not-listed", "order", id)
		}
	}
}

// same fails if the service shows f differently from due.
func (j *judge) same(f *fact, shown *Thing, due Thing) {
	for _, d := range shown.differ(&due) {
		j.soon(CheckTold, "shown", "order", f.id, "field", d.field, "got", d.got, "want", d.want)
	}
}

// order returns f as the service must show the order.
func (f *fact) order() Thing {
	o := Thing{
		OrderID: f.id, ReservationID: f.of.name(), Customer: f.customer, Lines: f.cart(), State: "placed", Late: f.late,
		CreatedAt: f.created,
	}
	if f.has("return") {
		o.State = "canceled"
	}
	return o
}

// held returns f as the service must show the reservation.
func (f *fact) held() Thing {
	r := Thing{
		OrderID: f.became.name(), ReservationID: f.id, Customer: f.customer, Lines: f.cart(), State: "held",
		CreatedAt: f.created, ExpiresAt: f.expires,
	}
	switch {
	case f.has("confirm"), f.became != nil && f.became.has("sell"):
		r.State = "confirmed"
	case f.has("cancel"):
		r.State = "canceled"
	case f.has("expire"):
		r.State = "expired"
	}
	return r
}

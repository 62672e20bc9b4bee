package checkout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// takes returns what a movement of that kind adds to each term of the law. An unknown kind adds nothing.
func takes(kind string, units int64) (terms [4]int64) {
	switch kind {
	case "set", "adjust":
		return [4]int64{units, units, 0, 0}
	case "sell":
		return [4]int64{0, -units, 0, units}
	case "reserve":
		return [4]int64{0, -units, units, 0}
	case "confirm":
		return [4]int64{0, 0, -units, units}
	case "cancel", "expire":
		return [4]int64{0, units, -units, 0}
	case "return":
		return [4]int64{0, units, 0, -units}
	}
	return terms
}

// units returns how many units m moves, as its kind counts them.
func (m *Movement) units() int64 {
	switch m.Kind {
	case "set", "adjust":
		return m.Received
	case "sell", "confirm":
		return m.Sold
	case "reserve":
		return m.Reserved
	case "cancel", "expire":
		return -m.Reserved
	}
	return -m.Sold
}

// ledgers checks the law and the limits over the movements of every SKU, and assigns movements to orders.
func (j *judge) ledgers() {
	for i := range j.e.Books {
		b := &j.e.Books[i]
		sku, now := b.Before.SKU, b.Before
		t := &timeline{
			available: []int64{now.Available}, taken: make(map[string][]level), earlier: now.Reserved,
		}
		j.timelines[sku] = t
		taken := make(map[string]int64)
		for k := range b.Movements {
			m := &b.Movements[k]
			j.looked(CheckLaw, 1)
			if expected := now.Number + 1; m.Number != expected {
				j.fail(CheckLaw, "gap", "sku", sku, "expected", expected, "number", m.Number)
			}
			got := [4]int64{m.Received, m.Available, m.Reserved, m.Sold}
			if got != takes(m.Kind, m.units()) || m.SKU != sku || m.units() < 1 && !m.received() {
				j.fail(CheckLaw, "kind", "sku", sku, "number", m.Number, "kind", m.Kind, "terms", fmt.Sprint(got))
			}
			now.Add(m)
			if !now.Lawful() {
				j.fail(CheckLaw, "law", "sku", sku, "number", m.Number, "terms", now.terms())
			}
			taken[m.Customer] += m.Reserved + m.Sold
			t.moves = append(t.moves, m)
			t.available = append(t.available, now.Available)
			t.taken[m.Customer] = append(t.taken[m.Customer], level{k + 1, taken[m.Customer]})
			if has := taken[m.Customer]; ours(m.Customer, j.e.Run) {
				j.looked(CheckLimits, 1)
				if j.e.Limit > 0 && has > j.e.Limit {
					j.fail(CheckLimits, "limit", "sku", sku, "number", m.Number, "customer", m.Customer,
						"has", has, "limit", j.e.Limit)
				}
			}
			j.belongs(m, t)
		}
		j.inTime(t)
		after := b.After
		if now != after {
			j.fail(CheckLaw, "counters", "sku", sku, "counters", after.terms(), "sum", now.terms(),
				"number", now.Number, "last", after.Number)
		}
	}
	if j.e.Limit == 0 {
		j.v.Check(CheckLimits).NotChecked = say("unchecked.no-limit")
	}
}

// received reports whether m is of no customer: units that were delivered or removed.
func (m *Movement) received() bool { return m.Kind == "set" || m.Kind == "adjust" }

// belongs finds the order or reservation of m. Reservations from before the run may expire during it. Any other
// movement without one was made by another client or is a fault; the evidence cannot distinguish them.
func (j *judge) belongs(m *Movement, t *timeline) {
	f := j.facts[m.Ref]
	switch {
	case m.received() && (m.Ref != "" || m.Customer != ""):
		j.fail(CheckTold, "extra", "sku", m.SKU, "number", m.Number, "kind", m.Kind, "what", cmp.Or(m.Customer, m.Ref))
	case !m.received() && m.Reason != "":
		j.fail(CheckTold, "extra", "sku", m.SKU, "number", m.Number, "kind", m.Kind, "what", m.Reason)
	}
	switch {
	case f != nil:
		f.moves[m.SKU] = append(f.moves[m.SKU], m)
		if f.customer != m.Customer {
			j.fail(CheckTold, "of-another", "order", f.id, "customer", m.Customer)
		}
	case m.received() && ofRun(m.Reason, j.e.Run):
		j.deliveries[m.Reason] = append(j.deliveries[m.Reason], m)
	case ours(m.Customer, j.e.Run):
		j.orphans[m.Ref] = m.Customer
	case m.Kind == "expire" && m.units() <= t.earlier:
		t.earlier -= m.units()
	default:
		j.fail(CheckSettled, "foreign", "sku", m.SKU, "number", m.Number, "kind", m.Kind, "units", m.units(),
			"who", cmp.Or(m.Customer, m.Reason, "-"))
	}
}

// delivered checks that each delivery is in the ledger once, as requested and as in the reply.
func (j *judge) delivered() {
	asked := make(map[string]bool)
	for _, q := range j.requests {
		if q.ask.Op != OpDeliver {
			continue
		}
		j.looked(CheckTold, 1)
		key := q.ask.Key
		asked[key] = true
		list := j.deliveries[key]
		switch n := len(list); {
		case n > 1:
			j.fail(CheckKeys, "delivered-twice", "key", key, "n", n)
		case n == 0 && q.done != nil:
			j.fail(CheckTold, "not-delivered", "key", key)
		case n == 1 && q.refused():
			j.fail(CheckTold, "delivered-refused", "key", key)
		}
		for _, m := range list {
			number := m.Number
			if q.done != nil {
				number = q.done.Number
			}
			if m.Kind != "adjust" || m.SKU != q.ask.Ref || m.units() != merged(q.ask.Lines)[m.SKU] ||
				m.Number != number {
				j.fail(CheckTold, "delivered-other", "key", key, "kind", m.Kind, "sku", m.SKU, "units", m.units(),
					"number", m.Number, "asked", units(q.ask.Lines), "told", number)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(j.deliveries)) {
		if !asked[key] {
			j.fail(CheckKeys, "delivered-unasked", "key", key)
		}
	}
}

func (c Counts) terms() string {
	return fmt.Sprintf("%d = %d + %d + %d", c.Received, c.Available, c.Reserved, c.Sold)
}

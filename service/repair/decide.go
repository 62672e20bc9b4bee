package repair

import (
	"slices"
	"strings"
)

// Names of options. The first part says which side is believed: what was received, and what is available.
const (
	Both      = "books"     // the counters and the movements agree, and the records contradict both
	Counters  = "counters"  // the movements are wrong
	Movements = "movements" // the counters are wrong
)

// The second part of a name says where units are of which the records do not tell. It is a person who knows.
const (
	Back  = "-back"  // units that are sold, but in no order, are in the shop: they can be sold
	Gone  = "-gone"  // units that are sold, but in no order, are not in the shop: they count as lost
	Found = "-found" // units that customers have in reservations and orders, but nobody received, are in the shop
)

// decide says how the books can be mended. It is a pure function of the numbers that were read.
//
// Reserved and sold are claims of customers. The reservations and the orders say what customers have, and only they
// can end a claim, so they are always believed; orders only if none was archived. What is left of the received units is
// available.
//
// Received, and so the units on the shelf, is known to counters and movements alone. If only one of the two is
// possible, it is believed: it obeys the law, has no damage, and does not end before the other. If both or neither is
// possible, the one is believed that agrees with the records, unless the other does, too. Otherwise a person must
// choose.
func decide(b Books) Mend {
	m := Mend{Books: b, Options: []Option{}}
	if !b.Movements.adds() { // no lawful movement can make this sum lawful: a person must restore a movement
		return m
	}
	sure := true // nothing but the books is needed to choose
	for _, side := range b.believed() {
		for _, o := range b.from(side) {
			same := func(p Option) bool { return p.Counters == o.Counters }
			if o.Counters.holds() && !slices.ContainsFunc(m.Options, same) {
				sure = sure && !slices.ContainsFunc([]string{Back, Gone, Found}, func(end string) bool {
					return strings.HasSuffix(o.Believe, end)
				})
				o.Adjust = o.Counters.less(b.Movements)
				m.Options = append(m.Options, o)
			}
		}
	}
	if sure && len(m.Options) == 1 {
		m.Choice = m.Options[0].Believe
	}
	return m
}

// balances reports whether nothing needs to be mended.
func (b Books) balances() bool {
	return b.Counters == b.Movements && b.Number == b.Last && len(b.Damage) == 0 && b.Counters.holds() &&
		b.agrees(b.Counters)
}

// agrees reports whether the records confirm the claims of customers in a.
func (b Books) agrees(a Amounts) bool {
	return a.Reserved == b.Held && (b.Ordered == nil || a.Sold == *b.Ordered)
}

// believed returns the sides whose received units may be right.
func (b Books) believed() []string {
	if b.Counters == b.Movements {
		return []string{Both}
	}
	counters := b.Counters.holds() && b.Number >= b.Last
	movements := b.Movements.holds() && len(b.Damage) == 0 && b.Last >= b.Number
	if counters == movements {
		counters, movements = b.agrees(b.Counters), b.agrees(b.Movements)
	}
	switch {
	case counters && !movements:
		return []string{Counters}
	case movements && !counters:
		return []string{Movements}
	}
	return []string{Counters, Movements}
}

// from returns the options if the received units of a side are right. Some may not obey the law.
func (b Books) from(side string) []Option {
	a := b.Counters
	if side == Movements {
		a = b.Movements
	}
	unexplained := int64(0) // units that are sold, but in no order
	if b.Ordered != nil {
		unexplained = max(0, a.Sold-*b.Ordered)
		a.Sold = *b.Ordered
	}
	a.Reserved = b.Held
	a.Available = a.Received - a.Reserved - a.Sold
	switch {
	case a.Available < 0:
		a.Received, a.Available = a.Received-a.Available, 0
		return []Option{{Believe: side + Found, Counters: a}}
	case unexplained > 0:
		lost := a
		lost.Received -= unexplained
		lost.Available -= unexplained
		return []Option{{Believe: side + Back, Counters: a}, {Believe: side + Gone, Counters: lost}}
	}
	return []Option{{Believe: side, Counters: a}}
}

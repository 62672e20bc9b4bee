package checkout

import "fmt"

// takes returns what a movement of some units of that kind adds to each term. ok is false for an unknown kind.
func takes(kind string, units int64) (d [4]int64, ok bool) {
	switch kind {
	case "set", "adjust":
		return [4]int64{units, units, 0, 0}, true
	case "sell":
		return [4]int64{0, -units, 0, units}, true
	case "reserve":
		return [4]int64{0, -units, units, 0}, true
	case "confirm":
		return [4]int64{0, 0, -units, units}, true
	case "cancel", "expire":
		return [4]int64{0, units, -units, 0}, true
	case "return":
		return [4]int64{0, units, 0, -units}, true
	}
	return d, false
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

// ledgers goes through the movements of every SKU: the law, the limits, and what belongs to which order.
func (j *judge) ledgers() {
	for i := range j.e.Books {
		b := &j.e.Books[i]
		sku, now, number := b.Before.SKU, b.Before, b.Before.Number
		j.least[sku] = now.Available
		taken := make(map[string]int64)
		for k := range b.Movements {
			m := &b.Movements[k]
			j.looked(CheckLaw, 1)
			if number++; m.Number != number {
				j.fail(CheckLaw, "gap", "sku", sku, "expected", number, "number", m.Number)
				number = m.Number
			}
			want, known := takes(m.Kind, m.units())
			if got := [4]int64{m.Received, m.Available, m.Reserved, m.Sold}; !known || got != want || m.SKU != sku ||
				m.units() < 1 && m.Kind != "set" && m.Kind != "adjust" {
				j.fail(CheckLaw, "kind", "sku", sku, "number", m.Number, "kind", m.Kind, "terms", fmt.Sprint(got))
			}
			now.Received += m.Received
			now.Available += m.Available
			now.Reserved += m.Reserved
			now.Sold += m.Sold
			if !now.lawful() {
				j.fail(CheckLaw, "law", "sku", sku, "number", m.Number, "terms", now.terms())
			}
			j.least[sku] = min(j.least[sku], now.Available)
			if m.At.After(j.latest) {
				j.latest = m.At
			}
			j.adjusts[m.Reason]++
			if !ours(m.Customer, j.e.Run) {
				continue
			}
			taken[m.Customer] += m.Reserved + m.Sold
			pair := [2]string{sku, m.Customer}
			j.most[pair] = max(j.most[pair], taken[m.Customer])
			j.looked(CheckLimits, 1)
			if j.e.Limit > 0 && taken[m.Customer] > j.e.Limit {
				j.fail(CheckLimits, "limit", "sku", sku, "number", m.Number, "customer", m.Customer,
					"has", taken[m.Customer], "limit", j.e.Limit)
			}
			if f := j.facts[m.Ref]; f != nil {
				f.moves[sku] = append(f.moves[sku], m)
				if f.customer != m.Customer {
					j.fail(CheckTold, "of-another", "order", f.id, "customer", m.Customer)
				}
			} else {
				j.orphans[m.Ref] = m.Customer
			}
		}
		after := b.After
		if now.Number = number; now != after {
			j.fail(CheckLaw, "counters", "sku", sku, "counters", after.terms(), "sum", now.terms(), "number", number,
				"last", after.Number)
		}
	}
	if j.e.Limit == 0 {
		j.v.Check(CheckLimits).NotChecked = say("unchecked.no-limit")
	}
}

func (c Counts) lawful() bool {
	return c.Received == c.Available+c.Reserved+c.Sold && min(c.Received, c.Available, c.Reserved, c.Sold) >= 0
}

func (c Counts) terms() string {
	return fmt.Sprintf("%d = %d + %d + %d", c.Received, c.Available, c.Reserved, c.Sold)
}

package loadtest

import "slices"

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

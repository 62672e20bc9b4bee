package loadtest

import (
	"cmp"
	"slices"
)

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

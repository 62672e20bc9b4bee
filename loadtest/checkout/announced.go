package checkout

import (
	"slices"
	"time"
)

// events compares the announced events with the ledger.
func (j *judge) events() {
	if j.e.Unheard.EN != "" {
		j.v.Check(CheckEvents).NotChecked = j.e.Unheard
		return
	}
	for i := range j.e.Books {
		b := &j.e.Books[i]
		seen := make(map[string]bool)
		next := 0 // index of the next movement to be announced
		for k := range b.Events {
			e := &b.Events[k]
			if e.Data.Number > b.After.Number {
				break // made after the counters were read
			}
			j.looked(CheckEvents, 1)
			at := slices.IndexFunc(b.Movements[min(next, len(b.Movements)):], func(m Movement) bool {
				return m.Number == e.Data.Number
			})
			if e.Repeat != seen[e.ID] {
				j.fail(CheckEvents, "event-other", "event", e.ID)
			}
			switch {
			case seen[e.ID]:
				if m := j.movement(b, e.Data.Number); m == nil || !same(m, &e.Data) {
					j.fail(CheckEvents, "event-twice", "event", e.ID)
				}
				continue
			case at < 0:
				j.fail(CheckEvents, "event-order", "event", e.ID, "sku", b.Before.SKU)
				continue
			case at > 0:
				j.fail(CheckEvents, "event-gap", "event", e.ID, "n", at)
			}
			m := &b.Movements[next+at]
			if !same(m, &e.Data) || e.ID != eventID(m) {
				j.fail(CheckEvents, "event-other", "event", e.ID)
			}
			seen[e.ID] = true
			next += at + 1
		}
		if left := len(b.Movements) - next; left > 0 {
			j.soon(CheckEvents, "event-missing", "sku", b.Before.SKU, "n", left, "first", b.Movements[next].Number)
			j.v.unannounced += left
		}
	}
}

func (j *judge) movement(b *Book, number uint64) *Movement {
	for i := range b.Movements {
		if b.Movements[i].Number == number {
			return &b.Movements[i]
		}
	}
	return nil
}

// same reports whether an event describes m.
func same(m, told *Movement) bool {
	a, b := *m, *told
	a.At, b.At = time.Time{}, time.Time{}
	return a == b && m.At.Equal(told.At)
}

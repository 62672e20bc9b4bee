package checkout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// keys checks that all replies to one key agree.
func (j *judge) keys() {
	owner := make(map[string]*request)
	for _, q := range j.requests {
		if q.ask.Key != "" {
			j.looked(CheckKeys, 1)
		}
		if q.done == nil {
			continue
		}
		if q.ask.Misuse {
			j.fail(CheckKeys, "misused", "key", q.ask.Key, "order", q.done.Got.id())
			continue
		}
		first := q.done
		for _, r := range q.attempts {
			if r.Outcome != Done || r == first {
				continue
			}
			switch {
			case r.Number != first.Number || r.Got.id() != first.Got.id():
				j.fail(CheckKeys, "two-ids", "key", cmp.Or(q.ask.Key, q.ask.Ref), "one", named(first),
					"other", named(r))
			case q.ask.Key != "" && !r.Replayed && r.Attempt > first.Attempt:
				j.fail(CheckKeys, "done-again", "key", q.ask.Key, "one", named(first))
			}
		}
		if id := first.Got.id(); q.cart() && id != "" {
			if other := owner[id]; other != nil {
				j.fail(CheckKeys, "two-keys", "one", other.ask.Key, "other", q.ask.Key, "order", id)
			}
			owner[id] = q
		}
	}
}

func (t *Thing) id() string {
	if t == nil {
		return ""
	}
	return cmp.Or(t.OrderID, t.ReservationID)
}

func named(r *Record) string {
	if r.Got == nil {
		return fmt.Sprintf("%d", r.Number)
	}
	return r.Got.id()
}

// replies compares every field of every reply with the request and with earlier replies.
func (j *judge) replies() {
	for _, q := range j.requests {
		if q.ask.Misuse || q.ask.Op == OpDeliver || q.done == nil {
			continue
		}
		want, ok := j.due(q)
		for _, r := range q.attempts {
			if r.Outcome != Done {
				continue
			}
			j.looked(CheckTold, 1)
			if !ok {
				j.fail(CheckTold, "reply", "op", string(q.ask.Op), "order", q.ask.Ref, "field", "id", "got", r.Got.id(),
					"want", "-")
				continue
			}
			if q.ask.Op == OpExtend && !j.extends(q, r) {
				j.fail(CheckTold, "extended", "order", q.ask.Ref, "ttl", q.ask.lasts(),
					"expires", clock(r.Got.ExpiresAt))
			}
			for _, d := range r.Got.differ(&want) {
				j.fail(CheckTold, "reply", "op", string(q.ask.Op), "order", cmp.Or(q.ask.Ref, want.id()),
					"field", d.field, "got", d.got, "want", d.want)
			}
		}
	}
}

// due returns the expected content of the replies to q. Unknown fields are taken from the first reply. ok is false if q
// is about something that no reply named, or its reply names nothing.
func (j *judge) due(q *request) (want Thing, ok bool) {
	first, f := q.done.Got, j.facts[q.ask.Ref]
	want = Thing{
		Customer: q.ask.Customer, Lines: q.ask.Lines, State: "placed", Late: first.Late, CreatedAt: first.CreatedAt,
	}
	switch q.ask.Op {
	case OpPlace:
		want.OrderID, want.Late = first.OrderID, false
		return want, first.OrderID != ""
	case OpReserve:
		want.ReservationID, want.State, want.Late = first.ReservationID, "held", false
		want.ExpiresAt = first.CreatedAt.Add(q.ask.lasts())
		return want, first.ReservationID != ""
	}
	if f == nil || f.reservation == (q.ask.Op == OpCancel) {
		return want, false
	}
	want.Lines = f.cart()
	if q.ask.Op == OpConfirm {
		want.OrderID, want.ReservationID = first.OrderID, f.id
		return want, first.OrderID != ""
	}
	want.CreatedAt = f.created
	if q.ask.Op == OpCancel {
		want.OrderID, want.ReservationID, want.State, want.Late = f.id, f.of.name(), "canceled", f.late
		return want, true
	}
	want.ReservationID, want.Late = f.id, false
	want.State, want.ExpiresAt = "held", first.ExpiresAt
	if q.ask.Op == OpRelease {
		want.State = "canceled"
		if !f.open(OpExtend) {
			want.ExpiresAt = f.expires
		}
	}
	return want, true
}

// longest is how long a reservation can last, from its creation to its end, extensions included.
const longest = 24 * time.Hour

// extends reports whether a reply to an extension may be right: the reservation lasts for the ttl from the time of the
// step, and has not become shorter.
func (j *judge) extends(q *request, r *Record) bool {
	f, until := j.facts[q.ask.Ref], r.Got.ExpiresAt
	least, most := f.created.Add(q.ask.lasts()), f.created.Add(longest)
	if j.measured {
		if sent := q.sent.Add(j.skew.least - drift); sent.After(f.created) {
			least = sent.Add(q.ask.lasts())
		}
		most = r.DoneAt.Add(j.skew.most + drift + q.ask.lasts())
	}
	return !until.Before(least.Add(-rounding)) && !until.After(most.Add(rounding))
}

// A difference is a field of an order or a reservation with a wrong value.
type difference struct{ field, got, want string }

// differ compares every field. Names are those of the JSON.
func (t *Thing) differ(want *Thing) (list []difference) {
	text := func(field, got, want string) {
		if got != want {
			list = append(list, difference{field, cmp.Or(got, "-"), cmp.Or(want, "-")})
		}
	}
	date := func(field string, got, want time.Time) {
		if !near(got, want) {
			list = append(list, difference{field, clock(got), clock(want)})
		}
	}
	text("order_id", t.OrderID, want.OrderID)
	text("reservation_id", t.ReservationID, want.ReservationID)
	text("customer", t.Customer, want.Customer)
	text("lines", units(t.Lines), units(want.Lines))
	text("state", t.State, want.State)
	text("late", fmt.Sprint(t.Late), fmt.Sprint(want.Late))
	date("created_at", t.CreatedAt, want.CreatedAt)
	date("expires_at", t.ExpiresAt, want.ExpiresAt)
	return list
}

// merged returns the units of a cart by SKU.
func merged(lines []Line) map[string]int64 {
	m := make(map[string]int64)
	for _, l := range lines {
		m[l.SKU] += l.Quantity
	}
	return m
}

// units describes a cart, independent of the order of its lines.
func units(lines []Line) string {
	var list []string
	cart := merged(lines)
	for _, sku := range slices.Sorted(maps.Keys(cart)) {
		list = append(list, fmt.Sprintf("%d %s", cart[sku], sku))
	}
	return strings.Join(list, ", ")
}

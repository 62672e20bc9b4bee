package loadtest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// A Mapping says how to speak to somebody else's inventory API: how to set stock, read it, deduct from it and list its orders, and what its
// replies mean. ParseMapping makes one; loadtest/README.md documents the file. It is read-only, and safe for concurrent use.
type Mapping struct {
	name   string    // of the strategy in reports
	set    *question // nil: the stock is set by other means
	read   reading
	deduct deduction
	orders *listing // nil: the API lists none
}

// Name is what reports call the way in which the service deducts.
func (m *Mapping) Name() string { return m.name }

// A question is one request to make.
type question struct {
	method  string
	path    template
	body    template // empty: none
	headers []header
	status  []statuses // that mean that it worked
}

type header struct {
	name  string
	value template
}

// A reading is how to read the units left.
type reading struct {
	question
	quantity place
}

// A deduction is how to ask for one, and what its replies mean.
type deduction struct {
	question
	accepted, soldOut, busy *rule // nil: the API has no such reply

	orderID, instance place // may be empty
	sight
}

// sight is where a reply or an order tells what the sale saw and did. Both places may be empty.
type sight struct{ read, remaining place }

// A listing is how to list the orders.
type listing struct {
	question
	list, next                   place // next may be empty: all come at once
	orderID, quantity, requestID place // requestID may be empty
	sight
}

// A rule says which replies mean one thing.
type rule struct {
	status []statuses // empty: any
	field  place      // empty: the status alone decides
	equals []string   // JSON scalars as text
}

// statuses are the HTTP statuses from one to another: 409 to 409, or 200 to 299 for 2xx.
type statuses struct{ from, to int }

func (s statuses) String() string {
	if s.from == s.to {
		return strconv.Itoa(s.from)
	}
	return fmt.Sprintf("%dxx", s.from/100)
}

func within(list []statuses, status int) bool {
	return slices.ContainsFunc(list, func(s statuses) bool { return s.from <= status && status <= s.to })
}

func (r *rule) matches(status int, doc any) bool {
	if r == nil || len(r.status) > 0 && !within(r.status, status) {
		return false
	}
	if r.field.empty() {
		return true
	}
	got, ok := r.field.scalar(doc)
	return ok && slices.Contains(r.equals, got)
}

// overlaps reports whether a reply could mean both by its form: the same status, and no field that tells them apart.
func (r *rule) overlaps(other *rule) (statuses, bool) {
	if r == nil || other == nil || !r.field.empty() && !other.field.empty() && (r.field.text != other.field.text || !slices.ContainsFunc(r.equals, func(text string) bool { return slices.Contains(other.equals, text) })) {
		return statuses{}, false
	}
	if len(r.status) == 0 || len(other.status) == 0 {
		return statuses{http.StatusOK, http.StatusOK}, true
	}
	for _, a := range r.status {
		for _, b := range other.status {
			if a.from <= b.to && b.from <= a.to {
				return statuses{max(a.from, b.from), min(a.to, b.to)}, true
			}
		}
	}
	return statuses{}, false
}

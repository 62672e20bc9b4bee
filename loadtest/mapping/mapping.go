// Package mapping describes a foreign inventory API in a file, and makes it a target of the load test.
package mapping

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// A File says how to use an inventory API: how to set stock, read it, deduct from it and list its orders, and what the
// replies mean. Parse makes a File; loadtest/README.md documents the format. A File is read-only, and safe for
// concurrent use.
type File struct {
	name   string    // of the strategy in reports
	set    *question // nil: the stock is set by other means
	read   reading
	deduct deduction
	orders *listing // nil: the API lists none
}

// Name returns the name of the strategy in reports.
func (f *File) Name() string { return f.name }

// Accepts reports whether a reply with that status is always accepted, or only sometimes, depending on its body.
func (f *File) Accepts(status int) (always, sometimes bool) {
	r := f.deduct.accepted
	if r == nil || len(r.status) > 0 && !within(r.status, status) {
		return false, false
	}
	alone := r.field.empty() && !f.deduct.soldOut.covers(status) && !f.deduct.busy.covers(status)
	return alone, !alone
}

// covers reports whether a reply with that status may match.
func (r *rule) covers(status int) bool {
	return r != nil && (len(r.status) == 0 || within(r.status, status))
}

// A question is the form of one request.
type question struct {
	method  string
	path    template
	body    template // empty: none
	headers []header
	status  []statuses // statuses of success
}

type header struct {
	name  string
	value template
}

// A reading says how to read the units left.
type reading struct {
	question
	quantity place
}

// A deduction says how to request a deduction, and what the replies mean.
type deduction struct {
	question
	accepted, soldOut, busy *rule // nil: the API has no such reply

	orderID, instance place // may be empty
	effect
}

// An effect is where a reply or an order reports what the sale read and wrote. Both places may be empty.
type effect struct{ read, remaining place }

// A listing says how to list the orders.
type listing struct {
	question
	list, next                   place // next may be empty: a single page
	orderID, quantity, requestID place // requestID may be empty
	effect
}

// A rule says which replies have one meaning.
type rule struct {
	status []statuses // empty: any
	field  place      // empty: the status alone decides
	equals []string   // JSON scalars as text
}

// statuses is a range of HTTP statuses: 409 to 409, or 200 to 299 for 2xx.
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
	if at, there := r.field.of(doc); there && at == nil {
		return slices.Contains(r.equals, "null")
	}
	got, ok := r.field.scalar(doc)
	return ok && slices.Contains(r.equals, got)
}

// overlaps reports whether one reply could match both rules: they share a status, and no field distinguishes them.
func (r *rule) overlaps(other *rule) (statuses, bool) {
	if r == nil || other == nil || r.toldApart(other) {
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

// toldApart reports whether a field distinguishes the rules, whatever the status.
func (r *rule) toldApart(other *rule) bool {
	if r.field.empty() || other.field.empty() {
		return false
	}
	shared := slices.ContainsFunc(r.equals, func(text string) bool { return slices.Contains(other.equals, text) })
	return r.field.text != other.field.text || !shared
}

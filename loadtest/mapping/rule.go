package mapping

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rules say which replies, or which entries of a list, have one meaning: those that any of the rules matches.
type rules []rule

// A rule is a condition on the status, on the values at a place, or on both.
type rule struct {
	status []statuses // empty: any
	field  place      // empty: the status alone decides
	predicate
	values []string // JSON scalars as text; "true" or "false" of exists

	// of a busy reply: how long to wait, or the header that tells it. Both may be empty.
	wait   time.Duration
	waitAt place
}

const (
	busyWait    = time.Second // if a rule, or the header that it names, does not tell another
	longestWait = time.Minute
)

// pause returns how long to wait after a reply that one of the rules matches. told is false if the mapping says nothing
// of it, and pause is busyWait. busy is false if no rule matches.
func (r rules) pause(status int, s source) (pause time.Duration, told, busy bool) {
	i := slices.IndexFunc(r, func(r rule) bool { return r.matches(status, s) })
	if i < 0 {
		return 0, false, false
	}
	if r[i].wait > 0 {
		return r[i].wait, true, true
	}
	return retryAfter(s.header.Get(r[i].waitAt.header)), !r[i].waitAt.empty(), true
}

// retryAfter returns the time of a header such as Retry-After: seconds, or a date.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, longestWait.Seconds()) * float64(time.Second))
	}
	if date, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(date), 0), longestWait)
	}
	return busyWait
}

// A predicate is a condition on the values at a place.
type predicate string

// The predicates. A null is absent, except that equals has been able to name it since before there were others.
const (
	equals   predicate = "equals"   // a value is one of those
	not      predicate = "not"      // there are values, and none is one of those
	contains predicate = "contains" // the text of a value contains one of those
	exists   predicate = "exists"   // there is a value, or there is none
)

// matches reports whether any of the rules matches.
func (r rules) matches(status int, s source) bool {
	return slices.ContainsFunc(r, func(r rule) bool { return r.matches(status, s) })
}

// String returns the statuses of rules that name no field.
func (r rules) String() string {
	var list []statuses
	for i := range r {
		if !r[i].field.empty() {
			return "what accepted names"
		}
		list = append(list, r[i].status...)
	}
	return fmt.Sprint(list)
}

// covers reports whether a reply with that status may match.
func (r rules) covers(status int) bool {
	return slices.ContainsFunc(r, func(r rule) bool { return len(r.status) == 0 || within(r.status, status) })
}

// always reports whether a reply with that status matches, whatever is in it.
func (r rules) always(status int) bool {
	return slices.ContainsFunc(r, func(r rule) bool { return r.field.empty() && within(r.status, status) })
}

// overlaps reports whether one reply is sure to be able to match both, and a status of it.
func (r rules) overlaps(other rules) (statuses, bool) {
	for i := range r {
		for k := range other {
			if status, both := r[i].overlaps(&other[k]); both {
				return status, true
			}
		}
	}
	return statuses{}, false
}

func (r *rule) matches(status int, s source) bool {
	if len(r.status) > 0 && !within(r.status, status) {
		return false
	}
	if r.field.empty() {
		return true
	}
	found := r.field.all(s)
	there := slices.ContainsFunc(found, func(value any) bool { return value != nil })
	named := slices.ContainsFunc(found, func(value any) bool {
		text, ok := scalar(value)
		if value == nil && r.predicate == equals {
			text, ok = "null", true
		}
		return ok && r.names(text)
	})
	switch r.predicate {
	case exists:
		return there == slices.Contains(r.values, "true")
	case not:
		return there && !named
	}
	return named
}

// names reports whether the rule's values name a text.
func (r *rule) names(text string) bool {
	if r.predicate == contains {
		return slices.ContainsFunc(r.values, func(value string) bool { return strings.Contains(text, value) })
	}
	return slices.Contains(r.values, text)
}

// overlaps reports whether one reply is sure to be able to match both rules: they share a status, and one of them asks
// for nothing else. Whether two fields tell all replies apart is seen in each reply.
func (r *rule) overlaps(other *rule) (statuses, bool) {
	if !r.field.empty() && !other.field.empty() {
		return statuses{}, false
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

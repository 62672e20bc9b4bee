package mapping

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// jsonText returns the text that place.scalar returns for the same value in JSON.
func jsonText(n *yaml.Node) string {
	switch n.ShortTag() {
	case "!!int", "!!float":
		return plain(n.Value)
	case "!!bool":
		return strings.ToLower(n.Value)
	case "!!null":
		return "null"
	}
	return n.Value
}

// rules returns a rule, or a list of them. It is empty if any is missing or invalid, so that nothing overlaps with it.
func (t *table) rules(key string) (list rules) {
	n := t.value(key, optional)
	if n == nil {
		return nil
	}
	nodes := []*yaml.Node{n}
	if at := target(n); at.Kind == yaml.SequenceNode {
		nodes = at.Content
	}
	if len(nodes) == 0 {
		t.bad(key, "is an empty list; leave it out, or give a rule")
	}
	before := len(t.found)
	for _, n := range nodes {
		if of := t.under(key, n); of != nil {
			list = append(list, of.rule(key == "busy"))
		}
	}
	if len(t.found) > before {
		return nil
	}
	if key != "busy" && len(list) > 0 {
		t.conditions = append(t.conditions, condition{entry{n.Line, t.field(key)}, list})
	}
	return list
}

// rule reads the rule that t is. One for busy replies may say how long to wait.
func (t *table) rule(busy bool) rule {
	before := len(t.found)
	r := rule{status: t.statuses(), field: t.place("field", optional)}
	if busy {
		r.wait, r.waitAt = t.wait()
	}
	var given []string
	for _, p := range []predicate{equals, not, contains, exists} {
		values := t.list(string(p))
		if _, there := t.values[string(p)]; !there {
			continue
		}
		given, r.predicate = append(given, string(p)), p
		for _, n := range values {
			r.values = append(r.values, jsonText(n))
		}
	}
	t.done()
	switch {
	case len(t.found) > before:
	case len(given) > 1:
		t.add(t.line, t.name, "must have one of %s; for any of several conditions give a list of rules",
			strings.Join(given, " and "))
	case r.field.empty() != (len(given) == 0), len(r.status) == 0 && r.field.empty():
		t.add(t.line, t.name, "must have status, or field with one of equals, not, contains and exists, or both")
	case r.predicate == exists && (len(r.values) != 1 || r.values[0] != "true" && r.values[0] != "false"):
		t.bad(string(exists), "must be true or false")
	case slices.Contains(r.values, "") && r.predicate == contains:
		t.bad(string(contains), "is empty, and every text contains that; give a part of the text")
	}
	return r
}

// busy reads the rules for busy replies, in place of outer ones.
func (t *table) busy(outer rules) rules {
	if own := t.rules("busy"); len(own) > 0 {
		return own
	}
	return outer
}

// wait reads how long to wait after a busy reply: a duration, or the header that tells it.
func (t *table) wait() (time.Duration, place) {
	if n := t.values["wait"]; strings.HasPrefix(n.Value, "header:") {
		return 0, t.place("wait", optional)
	}
	return t.duration("wait", time.Millisecond, longestWait), place{}
}

// where reads the rules for entries of the list, which have neither status nor headers.
func (t *table) where() rules {
	list := t.rules("where")
	for i := range list {
		if len(list[i].status) > 0 || list[i].field.header != "" {
			t.bad("where", "is about entries of the list, which have no status and no headers; name a field of theirs")
		}
	}
	return list
}

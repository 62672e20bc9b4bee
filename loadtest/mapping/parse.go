package mapping

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// The variables of templates. The token is the admin token from the command line, so that no file needs to hold it.
const (
	varSKU, varQuantity, varRequest, varToken, varCursor = "sku", "quantity", "request_id", "token", "cursor"

	varPage, varOffset = "page", "offset" // of a page of orders: its number, from 1, and the entries before it
)

// Variables of the environment are for what no file should hold, and so are never shown.
const (
	environment = "env."
	varEnv      = environment + "NAME"
)

// Whether a key must be there.
const required, optional = true, false

// Parse parses a mapping file: YAML, and so also JSON. The values of {{env.NAME}} are taken from the environment. The
// error joins an Error for each mistake, in the order of the lines.
func Parse(text []byte) (*File, error) {
	m := &mistakes{secrets: make(map[string]string), used: make(map[string]bool)}
	top, err := m.read(text)
	if err != nil {
		return nil, err
	}
	var f *File
	if top != nil {
		f = top.file()
	}
	if err := m.err(); err != nil {
		return nil, err
	}
	return f, nil
}

// An Error is one mistake in a mapping file.
type Error struct {
	Line   int    // from 1; 0: of the file as a whole
	Field  string // such as deduct.path
	Reason string
}

func (e *Error) Error() string {
	text := e.Reason
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// mistakes are those found so far. Parsing goes on after a mistake, so that one reading of the file finds all.
type mistakes struct {
	found   []error
	secrets map[string]string // as in File
	names   []string          // of the variables that ids has for every SKU
	saved   []string          // of those that set saves
	used    map[string]bool   // variables that occur

	conditions []condition
	saves      []saving
}

func (m *mistakes) add(line int, field, format string, args ...any) {
	m.found = append(m.found, &Error{line, field, fmt.Sprintf(format, args...)})
}

// err joins the mistakes, ordered by line and field.
func (m *mistakes) err() error {
	slices.SortStableFunc(m.found, func(a, b error) int {
		x, y := a.(*Error), b.(*Error)
		return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Field, y.Field))
	})
	return errors.Join(m.found...)
}

// A table is a YAML table. Its keys are asked for one by one; done notes those that nobody has asked for. (The YAML
// library can refuse unknown keys itself, but its error names a type of this package, and no key that there is.)
type table struct {
	*mistakes
	name   string // such as deduct.accepted; empty: the file
	line   int
	values map[string]yaml.Node
	asked  []string
	known  []string // variables of templates and places
}

// read returns the table that text is. It returns nil, and notes that, if it is none.
func (m *mistakes) read(text []byte) (*table, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		reason := err.Error()
		if bytes.Contains(text, []byte("{{")) {
			reason += " (in YAML, text with {{ }} needs quotes inside { })"
		}
		return nil, &Error{Reason: reason}
	}
	if len(doc.Content) == 0 {
		return nil, &Error{Reason: "is empty; it must have read and deduct at least"}
	}
	return m.table("", doc.Content[0]), nil
}

// table returns the table that n is. It returns nil, and notes why, if n is none.
func (m *mistakes) table(name string, n *yaml.Node) *table {
	line := n.Line
	if n = target(n); n.Kind != yaml.MappingNode {
		m.add(line, name, "must be a table of keys and values")
		return nil
	}
	t := &table{mistakes: m, name: name, line: line}
	before := len(m.found)
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if seen[key.Value] {
			m.add(key.Line, t.field(key.Value), "is there twice")
		}
		seen[key.Value] = true
	}
	if len(m.found) > before {
		return nil
	}
	// Decode resolves merge keys (<<).
	if err := n.Decode(&t.values); err != nil {
		m.add(line, name, "%v", err)
		return nil
	}
	return t
}

// target returns the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// field returns the name of a key of t, as errors say it.
func (t *table) field(key string) string { return strings.TrimPrefix(t.name+"."+key, ".") }

// value returns the value of key. It returns nil if there is none, and notes that if it is required.
func (t *table) value(key string, need bool) *yaml.Node {
	if !slices.Contains(t.asked, key) {
		t.asked = append(t.asked, key)
	}
	n, there := t.values[key]
	if there {
		return &n
	}
	if need {
		t.add(t.line, t.field(key), "is missing")
	}
	return nil
}

// bad notes a mistake in the value of key.
func (t *table) bad(key, format string, args ...any) {
	line := t.line
	if n, there := t.values[key]; there {
		line = n.Line
	}
	t.add(line, t.field(key), format, args...)
}

// sub returns the table under key, or nil.
func (t *table) sub(key string, need bool) *table {
	n := t.value(key, need)
	if n == nil {
		return nil
	}
	return t.under(key, n)
}

// under returns the table that n is, under key, or nil. Its templates have the variables of t.
func (t *table) under(key string, n *yaml.Node) *table {
	of := t.table(t.field(key), n)
	if of != nil {
		of.known = t.known
	}
	return of
}

// done notes the keys that nobody has asked for.
func (t *table) done() {
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		if !slices.Contains(t.asked, key) {
			slices.Sort(t.asked)
			t.bad(key, "is no key of %s; there is %s", cmp.Or(t.name, "the file"), strings.Join(t.asked, ", "))
		}
	}
}

// text returns a scalar as it is written: a number needs no quotes. It returns "" if there is none.
func (t *table) text(key string, need bool) string {
	n := t.value(key, need)
	if n == nil {
		return ""
	}
	switch n = target(n); {
	case n.Kind != yaml.ScalarNode:
		t.bad(key, "must be text")
		return ""
	case n.Value == "" || n.ShortTag() == "!!null":
		t.bad(key, "is empty; leave it out, or give a value")
		return ""
	}
	return n.Value
}

func (t *table) template(key string, need bool) template {
	parsed, err := parseTemplate(t.text(key, need), t.known)
	if err != nil {
		t.bad(key, "%v", err)
	}
	for _, p := range parsed {
		if p.number {
			t.bad(key, "{{%s:number}} is for a body that is a table: write {{%s}}", p.variable, p.variable)
		}
	}
	t.keep(parsed)
	return parsed
}

// keep notes the secrets in a template, and the variables.
func (t *table) keep(parsed template) {
	for _, p := range parsed {
		for name := range strings.SplitSeq(p.variable, "+") {
			t.used[name] = true
		}
		if strings.HasPrefix(p.variable, environment) {
			t.secrets[p.text] = "{{" + p.variable + "}}"
		}
	}
}

// duration returns a duration of at least least and at most most, or 0 if there is none.
func (t *table) duration(key string, least, most time.Duration) time.Duration {
	text := t.text(key, optional)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		t.bad(key, "%q is no duration from %v to %v, such as 2s or 500ms", text, least, most)
		return 0
	}
	return d
}

func (t *table) place(key string, need bool) place {
	text := t.text(key, need)
	if text == "" {
		return place{}
	}
	known := slices.DeleteFunc(slices.Clone(t.known), func(name string) bool { return name == varEnv })
	p, err := parsePlace(text, known)
	if err != nil {
		t.bad(key, "%v", err)
	}
	for _, k := range p.keys {
		if k.filter != nil {
			t.keep(k.filter.value)
		}
	}
	return p
}

// entryPlace returns a place in an entry of the list.
func (t *table) entryPlace(key string, need bool) place {
	p := t.place(key, need)
	if p.header != "" {
		t.bad(key, "is a header of the reply, which no entry of the list has: name a place in the entry")
	}
	return p
}

// list returns the scalars of a list, or one scalar.
func (t *table) list(key string) (scalars []*yaml.Node) {
	n := t.value(key, optional)
	if n == nil {
		return nil
	}
	nodes := []*yaml.Node{n}
	if n = target(n); n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	if len(nodes) == 0 {
		t.bad(key, "is an empty list; leave it out, or give a value")
	}
	for _, n := range nodes {
		if n = target(n); n.Kind != yaml.ScalarNode {
			t.add(n.Line, t.field(key), "must be a value, or a list of values")
			continue
		}
		scalars = append(scalars, n)
	}
	return scalars
}

func (t *table) statuses() (list []statuses) {
	for _, n := range t.list("status") {
		class, isClass := strings.CutSuffix(strings.ToLower(n.Value), "xx")
		status, err := strconv.Atoi(class)
		switch {
		case err == nil && isClass && 2 <= status && status <= 5:
			list = append(list, statuses{status * 100, status*100 + 99})
		case err == nil && !isClass && 200 <= status && status <= 599:
			list = append(list, statuses{status, status})
		default:
			t.add(n.Line, t.field("status"),
				"%q is no HTTP status; there is 200 to 599, and 2xx, 3xx, 4xx and 5xx for all that begin so", n.Value)
		}
	}
	return list
}

// has reports whether there is a key.
func (t *table) has(key string) bool {
	_, there := t.values[key]
	return there
}

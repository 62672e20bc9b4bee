package mapping

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

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
	m := &mistakes{secrets: make(map[string]string)}
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

// keep notes the secrets in a template.
func (t *table) keep(parsed template) {
	for _, p := range parsed {
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

// file reads the whole file.
func (t *table) file() *File {
	top, f := t, &File{name: cmp.Or(t.text("name", optional), "mapped"), secrets: t.secrets}
	top.known = []string{varToken, varEnv}
	f.ids, f.skus = top.ids()
	f.late = top.duration("late", time.Millisecond, 10*time.Minute)
	common := question{headers: top.headers(nil), busy: top.rules("busy", optional)}
	if t := top.section("set", optional, varSKU, varQuantity, varToken); t != nil {
		f.set = new(t.call(http.MethodPut, common))
		t.done()
	}
	if t := top.section("read", required, varSKU, varToken); t != nil {
		f.read = reading{t.call(http.MethodGet, common), t.place("quantity", required), t.place("less", optional)}
		t.done()
	}
	if t := top.section("deduct", required, varSKU, varQuantity, varRequest, varToken); t != nil {
		f.deduct = t.deduction(common)
		t.done()
	}
	if t := top.section("orders", optional, varSKU, varToken, varCursor, varPage, varOffset); t != nil {
		f.orders = t.listing(common)
		t.done()
		if f.deduct.orderID.empty() {
			top.add(t.line, "deduct.order_id",
				"is missing: without it no reply can be found among the orders; or leave orders out")
		}
	}
	top.done()
	return f
}

// ids reads the other names of SKUs. Each SKU must have all of them.
func (t *table) ids() (ids map[string]values, skus []string) {
	n, of := t.values["ids"], t.sub("ids", optional)
	if of == nil {
		return nil, nil
	}
	ids = make(map[string]values)
	for i := 0; i+1 < len(target(&n).Content); i += 2 {
		sku := target(&n).Content[i].Value
		names := of.sub(sku, required)
		if names == nil {
			continue
		}
		ids[sku], skus = make(values), append(skus, sku)
		for _, name := range slices.Sorted(maps.Keys(names.values)) {
			if !isVariable(name) {
				names.bad(name, "cannot be the name of a variable: take letters, digits and _, and no name that is "+
					"taken")
			}
			ids[sku][name] = names.text(name, required)
		}
		all := slices.Sorted(maps.Keys(names.values))
		if len(skus) == 1 {
			t.names = all
		} else if !slices.Equal(all, t.names) {
			of.bad(sku, "has other names than %s: give each SKU the same", skus[0])
		}
	}
	if len(skus) == 0 {
		t.bad("ids", "has no SKU; leave it out, or give each SKU its names, as in {shirt: {variant: v_17}}")
	}
	return ids, skus
}

// isVariable reports whether name can be the name of another variable.
func isVariable(name string) bool {
	known := []string{varSKU, varQuantity, varRequest, varToken, varCursor, varPage, varOffset}
	return name != "" && !slices.Contains(known, name) && !strings.ContainsFunc(name, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}

// section returns the table under key, in which the given variables are known, or nil.
func (t *table) section(key string, need bool, variables ...string) *table {
	of := t.sub(key, need)
	if of != nil {
		of.known = slices.Concat(variables, t.names, []string{varEnv})
	}
	return of
}

// headers reads the headers and the authentication of a request, which take the place of outer ones with the same name.
// A Content-Type is the type of the bodies.
func (t *table) headers(outer []header) []header {
	own := t.ownHeaders()
	auth, given := t.auth()
	if given {
		if slices.ContainsFunc(own, isAuthorization) {
			t.bad("auth", "and headers.Authorization are two forms of the same; leave one out")
		}
		outer = slices.DeleteFunc(slices.Clone(outer), isAuthorization)
	}
	own = append(own, auth...)
	list := slices.DeleteFunc(slices.Clone(outer), func(h header) bool {
		return slices.ContainsFunc(own, func(inner header) bool { return inner.name == h.name })
	})
	list = append(list, own...)
	slices.SortFunc(list, func(a, b header) int { return cmp.Compare(a.name, b.name) })
	return list
}

func isAuthorization(h header) bool { return h.name == "Authorization" }

func (t *table) ownHeaders() (list []header) {
	of := t.sub("headers", optional)
	if of == nil {
		return nil
	}
	for name := range of.values {
		value := of.template(name, required)
		of.sendable(name, value)
		if strings.ContainsFunc(name, noHeaderRune) {
			of.bad(name, "is no name of a header")
		}
		list = append(list, header{name: textproto.CanonicalMIMEHeaderKey(name), value: value})
	}
	return list
}

// sendable notes it if a value cannot be sent in a header.
func (t *table) sendable(key string, value template) {
	if strings.ContainsFunc(value.fill(nil), func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.bad(key, "cannot be sent in a header: it has a control character")
	}
}

// auth reads how requests say who sends them. given is false if nothing is said, and what is outside decides. If nobody
// is to be named, list is empty.
func (t *table) auth() (list []header, given bool) {
	n := t.value("auth", optional)
	if n == nil {
		return nil, false
	}
	if at := target(n); at.Kind == yaml.ScalarNode {
		if at.Value != "none" {
			t.bad("auth", "%q is not known; there is none, {bearer: TEXT} and {basic: {user: TEXT, password: TEXT}}",
				at.Value)
		}
		return nil, true
	}
	of := t.table(t.field("auth"), n)
	if of == nil {
		return nil, true
	}
	of.known = t.known
	if bearer := of.template("bearer", optional); len(bearer) > 0 {
		of.sendable("bearer", bearer)
		list = append(list, header{name: "Authorization", value: append(template{{text: "Bearer "}}, bearer...)})
	}
	if basic := of.sub("basic", optional); basic != nil {
		user, password := basic.template("user", required), basic.template("password", required)
		basic.done()
		if strings.Contains(user.fill(nil), ":") {
			basic.bad("user", "must have no colon: it ends where the first one is")
		}
		value := slices.Concat(user, template{{text: ":"}}, password)
		list = append(list, header{name: "Authorization", value: value, basic: true})
	}
	before := len(t.found)
	of.done()
	switch _, both := of.values["bearer"]; {
	case len(t.found) > before:
	case len(list) == 0 && len(of.values) == 0:
		t.bad("auth", "must have bearer or basic, or be none")
	case len(list) > 1 && both:
		t.bad("auth", "has two forms, bearer and basic; leave one out")
	}
	return list, true
}

// noHeaderRune reports whether r is not allowed in the name of a header.
func noHeaderRune(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// call reads a request that succeeds or fails by the status of the reply.
func (t *table) call(method string, common question) question {
	q := t.request(method, common)
	if q.status = t.statuses(); len(q.status) == 0 {
		q.status = []statuses{{200, 299}}
	}
	return q
}

// request reads the form of a request. method is the default.
// common has what all requests have.
func (t *table) request(method string, common question) question {
	q := question{
		method: cmp.Or(t.text("method", optional), method), path: t.template("path", required),
		headers: t.headers(common.headers), busy: common.busy,
	}
	q.body, q.isJSON = t.body()
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if !slices.Contains(methods, q.method) {
		t.bad("method", "%q is not allowed; there is %s", q.method, strings.Join(methods, ", "))
	}
	sample := values{
		varSKU: "a b/ü\"", varQuantity: "1", varRequest: "load-1", varToken: "t", varCursor: "2",
		varPage: "1", varOffset: "0",
	}
	for _, name := range t.names {
		sample[name] = "1"
	}
	if path := q.path.path(sample); len(q.path) > 0 {
		_, err := url.Parse("http://host" + path)
		if !strings.HasPrefix(path, "/") || err != nil || strings.Contains(path, "#") {
			t.bad("path", "%q must be a path from the address on, such as /items/{{sku}}, with a query at most", q.path)
		}
	}
	kind := q.kind()
	ofJSON := strings.Contains(kind, "json")
	switch {
	case q.isJSON && !ofJSON:
		t.bad("body", "is a table, which is sent as JSON, and headers.Content-Type is %q: write the body as text",
			kind)
	case ofJSON && !q.isJSON && len(q.body) > 0 && !json.Valid([]byte(q.body.content(kind, sample))):
		t.bad("body", `is not JSON once it is filled in; put quotes around text, as in {"item":"{{sku}}"}, `+
			`or set headers.Content-Type`)
	}
	return q
}

// contentType returns the media type of bodies.
func contentType(headers []header) string {
	for _, h := range headers {
		if h.name == "Content-Type" {
			return h.value.String()
		}
	}
	return "application/json"
}

func (t *table) deduction(common question) deduction {
	d := deduction{
		question: t.request(http.MethodPost, common),
		accepted: t.rules("accepted", required),
		soldOut:  t.rules("sold_out", optional),
		orderID:  t.place("order_id", optional),
		instance: t.place("instance", optional),
		effect:   effect{t.place("read", optional), t.place("remaining", optional)},
	}
	if busy := t.rules("busy", optional); len(busy) > 0 {
		d.busy = busy
	}
	for _, pair := range []struct {
		a, b string
		x, y rules
	}{
		{"accepted", "sold_out", d.accepted, d.soldOut},
		{"accepted", "busy", d.accepted, d.busy},
		{"sold_out", "busy", d.soldOut, d.busy},
	} {
		if status, both := pair.x.overlaps(pair.y); both {
			t.bad(pair.b,
				"takes status %s, as %s does: give each a field, and other values in equals, to tell them apart",
				status, pair.a)
		}
	}
	return d
}

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
func (t *table) rules(key string, need bool) (list rules) {
	n := t.value(key, need)
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
		if of := t.table(t.field(key), n); of != nil {
			of.known = t.known
			list = append(list, of.rule(key == "busy"))
		}
	}
	if len(t.found) > before {
		return nil
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
	case len(r.status) == 0 && r.field.empty() && len(given) == 0:
		t.add(t.line, t.name, "must have status, or field with equals, not, contains or exists, or both")
	case len(given) > 1:
		t.add(t.line, t.name, "must have one of %s; for any of several conditions give a list of rules",
			strings.Join(given, " and "))
	case len(given) == 0 && !r.field.empty():
		t.add(t.line, t.name, "must have field and equals together, or not, contains or exists in place of equals")
	case len(given) > 0 && r.field.empty():
		t.add(t.line, t.name, "must have field and %s together", given[0])
	case r.predicate == exists && (len(r.values) != 1 || r.values[0] != "true" && r.values[0] != "false"):
		t.bad(string(exists), "must be true or false")
	case slices.Contains(r.values, "") && r.predicate == contains:
		t.bad(string(contains), "is empty, and every text contains that; give a part of the text")
	}
	return r
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
	list := t.rules("where", optional)
	for i := range list {
		if len(list[i].status) > 0 || list[i].field.header != "" {
			t.bad("where", "is about entries of the list, which have no status and no headers; name a field of theirs")
		}
	}
	return list
}

func (t *table) listing(common question) *listing {
	l := &listing{
		question:  t.call(http.MethodGet, common),
		list:      t.place("list", required),
		where:     t.where(),
		orderID:   t.entryPlace("order_id", required),
		quantity:  t.entryPlace("quantity", required),
		requestID: t.entryPlace("request_id", optional),
		effect:    effect{t.entryPlace("read", optional), t.entryPlace("remaining", optional)},
	}
	l.next = t.paging()
	asks := func(names ...string) bool {
		return slices.ContainsFunc(slices.Concat(l.path, l.body), func(p part) bool {
			return slices.Contains(names, p.variable)
		})
	}
	switch counts := l.next.form == byPages || l.next.form == byTotal; {
	case asks(varCursor) && l.next.form != byCursor:
		t.bad("next", "is missing: {{%s}} needs the place where a reply tells the cursor of the next page", varCursor)
	case l.next.form == byCursor && !asks(varCursor):
		t.bad("next", "needs {{%s}} in path or body, or the same page would be asked for without end", varCursor)
	case asks(varPage, varOffset) && !counts:
		t.bad("next", "is missing: {{%s}} and {{%s}} need pages or total, the place where a reply tells how many "+
			"there are", varPage, varOffset)
	case counts && !asks(varPage, varOffset):
		t.bad("next", "needs {{%s}} or {{%s}} in path or body, or the same page would be asked for without end",
			varPage, varOffset)
	}
	return l
}

// paging reads how the list goes on: the place of a cursor, or a table with one of the forms.
func (t *table) paging() (p paging) {
	n := t.value("next", optional)
	if n == nil {
		return p
	}
	if target(n).Kind == yaml.ScalarNode {
		if p.at = t.place("next", optional); !p.at.empty() {
			p.form = byCursor
		}
		return p
	}
	of := t.table(t.field("next"), n)
	if of == nil {
		return p
	}
	of.known = t.known
	var given []string
	for _, form := range []pagingForm{byCursor, byLink, byPages, byTotal} {
		text := of.text(string(form), optional)
		if text == "" {
			continue
		}
		given, p.form = append(given, string(form)), form
		switch {
		case form != byLink:
			p.at = of.place(string(form), optional)
		case text != "next":
			of.bad(string(form), "%q is not known; there is next, the link with rel=\"next\" in the Link header", text)
		}
	}
	if p.form == byCursor {
		p.more = of.place("more", optional)
	}
	before := len(t.found)
	of.done()
	if len(given) != 1 && len(t.found) == before {
		t.bad("next", "must have one of cursor, link, pages and total, and has %d of them", len(given))
	}
	return p
}

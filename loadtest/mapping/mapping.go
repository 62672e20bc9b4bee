// Package mapping describes a foreign inventory API in a file, and makes it a target of the load test.
package mapping

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
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

// The forms mirror the file. The YAML library fills them in, and refuses unknown and repeated keys.
type (
	fileForm struct {
		Name    yaml.Node
		Headers map[string]yaml.Node
		Set     *callForm
		Read    *readForm
		Deduct  *deductForm
		Orders  *ordersForm
	}
	requestForm struct{ Method, Path, Body yaml.Node }
	callForm    struct {
		requestForm `yaml:",inline"`
		Status      yaml.Node
	}
	effectForm struct{ Read, Remaining yaml.Node }
	readForm   struct {
		callForm `yaml:",inline"`
		Quantity yaml.Node
	}
	deductForm struct {
		requestForm `yaml:",inline"`
		effectForm  `yaml:",inline"`
		Accepted    *ruleForm
		SoldOut     *ruleForm `yaml:"sold_out"`
		Busy        *ruleForm
		OrderID     yaml.Node `yaml:"order_id"`
		Instance    yaml.Node
	}
	ordersForm struct {
		callForm   `yaml:",inline"`
		effectForm `yaml:",inline"`
		List, Next yaml.Node
		OrderID    yaml.Node `yaml:"order_id"`
		Quantity   yaml.Node
		RequestID  yaml.Node `yaml:"request_id"`
	}
	ruleForm struct{ Status, Field, Equals yaml.Node }
)

// The variables of templates. The token is the admin token from the command line, so that no file needs to hold it.
const (
	varSKU, varQuantity, varRequest, varToken, varCursor = "sku", "quantity", "request_id", "token", "cursor"
)

// Parse parses a mapping file: YAML, and so also JSON. The error joins an Error for each mistake, in the order of the
// lines.
func Parse(text []byte) (*File, error) {
	c := new(checker)
	var form fileForm
	if err := c.decode(text, &form); err != nil {
		return nil, err
	}
	common := c.headers(form.Headers)
	f := &File{name: cmp.Or(c.text("name", form.Name, false), "mapped")}
	if c.table("set", form.Set != nil, false) {
		f.set = new(c.call("set", *form.Set, http.MethodPut, common, varSKU, varQuantity, varToken))
	}
	if c.table("read", form.Read != nil, true) {
		f.read.question = c.call("read", form.Read.callForm, http.MethodGet, common, varSKU, varToken)
		f.read.quantity = c.place("read.quantity", form.Read.Quantity, true)
	}
	if c.table("deduct", form.Deduct != nil, true) {
		f.deduct = c.deduction(form.Deduct, common)
	}
	if c.table("orders", form.Orders != nil, false) {
		f.orders = c.listing(form.Orders, common)
		if f.deduct.orderID.empty() {
			c.badAt(c.line("orders"), "deduct.order_id",
				"is missing: without it no reply can be found among the orders; or leave orders out")
		}
	}
	if err := c.err(); err != nil {
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

// A checker converts the forms to a File, and collects the mistakes.
type checker struct {
	root  *yaml.Node
	wrong []*Error
}

// decode fills in form. It records unknown keys and continues; it stops at other errors.
func (c *checker) decode(text []byte, form *fileForm) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		reason := err.Error()
		if bytes.Contains(text, []byte("{{")) {
			reason += " (in YAML, text with {{ }} needs quotes inside { })"
		}
		return &Error{Reason: reason}
	}
	if len(doc.Content) == 0 {
		return &Error{Reason: "is empty; it must have read and deduct at least"}
	}
	c.root = target(doc.Content[0])
	if c.root.Kind != yaml.MappingNode {
		c.bad("", "must be a table of keys and values")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var refused *yaml.TypeError
	switch err := dec.Decode(form); {
	case err == nil:
		return nil
	case !errors.As(err, &refused):
		return &Error{Reason: err.Error()}
	}
	for _, text := range refused.Errors {
		c.explain(text)
	}
	return nil
}

// explain notes an error of the YAML library in the words of this package.
func (c *checker) explain(text string) {
	number, text, _ := strings.Cut(strings.TrimPrefix(text, "line "), ": ")
	line, _ := strconv.Atoi(number)
	if m := regexp.MustCompile(`^field (.*) not found in type mapping\.(\w+)$`).FindStringSubmatch(text); m != nil {
		field, parent := c.find(line, m[1])
		allowed := strings.Join(keysOf(m[2]), ", ")
		c.badAt(line, field, "is no key of %s; there is %s", cmp.Or(parent, "the file"), allowed)
		return
	}
	if m := regexp.MustCompile(`^mapping key "(.*)" already defined at line`).FindStringSubmatch(text); m != nil {
		field, _ := c.find(line, m[1])
		c.badAt(line, field, "is there twice")
		return
	}
	if !strings.HasPrefix(text, "cannot unmarshal") { // table and headers note those, by their names
		c.badAt(line, "", "%s", text)
	}
}

// find returns the path of the key at line, and the path of its table.
func (c *checker) find(line int, key string) (field, parent string) {
	var search func(n *yaml.Node, at string, depth int) bool
	search = func(n *yaml.Node, at string, depth int) bool {
		if n = target(n); n.Kind != yaml.MappingNode || depth == 0 {
			return false
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i]
			here := strings.TrimPrefix(at+"."+name.Value, ".")
			if name.Line == line && name.Value == key {
				field, parent = here, at
				return true
			}
			if search(n.Content[i+1], here, depth-1) {
				return true
			}
		}
		return false
	}
	if !search(c.root, "", 3) { // no key is deeper, and an alias may contain itself
		field = key
	}
	return field, parent
}

// keysOf returns the keys of the form with that type name.
func keysOf(name string) []string {
	var keys []string
	var collect func(t reflect.Type)
	collect = func(t reflect.Type) {
		for f := range t.Fields() {
			if f.Anonymous {
				collect(f.Type)
				continue
			}
			keys = append(keys, cmp.Or(f.Tag.Get("yaml"), strings.ToLower(f.Name)))
		}
	}
	for _, form := range []any{fileForm{}, callForm{}, readForm{}, deductForm{}, ordersForm{}, ruleForm{}} {
		if t := reflect.TypeOf(form); t.Name() == name {
			collect(t)
		}
	}
	slices.Sort(keys)
	return keys
}

// target returns the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// node returns the value of field, such as deduct.accepted, or nil.
func (c *checker) node(field string) *yaml.Node {
	n := c.root
	for n != nil && field != "" {
		table := n
		n = nil
		for i := 0; table.Kind == yaml.MappingNode && i+1 < len(table.Content); i += 2 {
			key := table.Content[i].Value
			if rest, found := strings.CutPrefix(field, key); found && (rest == "" || rest[0] == '.') {
				n, field = target(table.Content[i+1]), strings.TrimPrefix(rest, ".")
				break
			}
		}
	}
	return n
}

// line returns the line of field, or of its table if it is missing.
func (c *checker) line(field string) int {
	for {
		if n := c.node(field); n != nil {
			return n.Line
		}
		field = field[:max(strings.LastIndexByte(field, '.'), 0)]
	}
}

func (c *checker) bad(field, format string, args ...any) {
	c.badAt(c.line(field), field, format, args...)
}

func (c *checker) badAt(line int, field, format string, args ...any) {
	c.wrong = append(c.wrong, &Error{line, field, fmt.Sprintf(format, args...)})
}

// err joins the mistakes, ordered by line.
func (c *checker) err() error {
	slices.SortStableFunc(c.wrong, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field))
	})
	var list []error
	for _, e := range c.wrong {
		list = append(list, e)
	}
	return errors.Join(list...)
}

// table reports whether field was decoded as a table. If not, it notes why.
func (c *checker) table(field string, decoded, need bool) bool {
	n := c.node(field)
	switch {
	case n != nil && n.Kind != yaml.MappingNode:
		c.bad(field, "must be a table of keys and values")
		return false
	case !decoded && n == nil && need:
		c.bad(field, "is missing")
	}
	return decoded
}

// text returns a scalar as it is written: a number needs no quotes. It returns "" if there is none.
func (c *checker) text(field string, n yaml.Node, need bool) string {
	value := target(&n)
	switch {
	case n.IsZero():
		if need && c.node(field) == nil { // if it is there, its table was refused
			c.bad(field, "is missing")
		}
		return ""
	case value.Kind != yaml.ScalarNode:
		c.bad(field, "must be text")
		return ""
	case value.Value == "" || value.ShortTag() == "!!null":
		c.bad(field, "is empty; leave it out, or give a value")
		return ""
	}
	return value.Value
}

func (c *checker) template(field string, n yaml.Node, need bool, variables []string) template {
	t, err := parseTemplate(c.text(field, n, need), variables)
	if err != nil {
		c.bad(field, "%v", err)
	}
	return t
}

func (c *checker) place(field string, n yaml.Node, need bool) place {
	text := c.text(field, n, need)
	if text == "" {
		return place{}
	}
	p, err := parsePlace(text)
	if err != nil {
		c.bad(field, "%v", err)
	}
	return p
}

// list returns the scalars of a list, or one scalar.
func (c *checker) list(field string, n yaml.Node) []*yaml.Node {
	if n.IsZero() {
		return nil
	}
	value := target(&n)
	nodes := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode {
		nodes = value.Content
	}
	if len(nodes) == 0 {
		c.bad(field, "is an empty list; leave it out, or give a value")
	}
	var scalars []*yaml.Node
	for _, n := range nodes {
		if n = target(n); n.Kind != yaml.ScalarNode {
			c.badAt(n.Line, field, "must be a value, or a list of values")
			continue
		}
		scalars = append(scalars, n)
	}
	return scalars
}

func (c *checker) statuses(field string, n yaml.Node) []statuses {
	var list []statuses
	for _, n := range c.list(field, n) {
		class, isClass := strings.CutSuffix(strings.ToLower(n.Value), "xx")
		status, err := strconv.Atoi(class)
		switch {
		case err == nil && isClass && 2 <= status && status <= 5:
			list = append(list, statuses{status * 100, status*100 + 99})
		case err == nil && !isClass && 200 <= status && status <= 599:
			list = append(list, statuses{status, status})
		default:
			c.badAt(n.Line, field,
				"%q is no HTTP status; there is 200 to 599, and 2xx, 3xx, 4xx and 5xx for all that begin so", n.Value)
		}
	}
	return list
}

// headers checks the headers that are sent with every request. A Content-Type is the type of the bodies.
func (c *checker) headers(form map[string]yaml.Node) []header {
	if !c.table("headers", form != nil, false) {
		return nil
	}
	var list []header
	for name, n := range form {
		field := "headers." + name
		value := c.template(field, n, true, []string{varToken})
		switch {
		case strings.ContainsFunc(name, noHeaderRune):
			c.bad(field, "is no name of a header")
		case strings.ContainsFunc(value.String(), func(r rune) bool { return r < ' ' || r == 0x7f }):
			c.bad(field, "cannot be sent in a header: it has a control character")
		}
		list = append(list, header{textproto.CanonicalMIMEHeaderKey(name), value})
	}
	slices.SortFunc(list, func(a, b header) int { return cmp.Compare(a.name, b.name) })
	return list
}

// noHeaderRune reports whether r is not allowed in the name of a header.
func noHeaderRune(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// call checks a request that succeeds or fails by the status of the reply.
func (c *checker) call(field string, form callForm, method string, headers []header, variables ...string) question {
	q := c.request(field, form.requestForm, method, headers, variables...)
	if q.status = c.statuses(field+".status", form.Status); len(q.status) == 0 {
		q.status = []statuses{{200, 299}}
	}
	return q
}

// request checks the form of a request. method is the default.
func (c *checker) request(
	field string,
	form requestForm,
	method string,
	headers []header,
	variables ...string,
) question {
	q := question{
		method: cmp.Or(c.text(field+".method", form.Method, false), method), headers: headers,
		path: c.template(field+".path", form.Path, true, variables),
		body: c.template(field+".body", form.Body, false, variables),
	}
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if !slices.Contains(methods, q.method) {
		c.bad(field+".method", "%q is not allowed; there is %s", q.method, strings.Join(methods, ", "))
	}
	sample := values{varSKU: "a b/ü\"", varQuantity: "1", varRequest: "load-1", varToken: "t", varCursor: "2"}
	if path := q.path.path(sample); len(q.path) > 0 {
		_, err := url.Parse("http://host" + path)
		if !strings.HasPrefix(path, "/") || err != nil || strings.Contains(path, "#") {
			c.bad(field+".path",
				"%q must be a path from the address on, such as /items/{{sku}}, with a query at most", q.path)
		}
	}
	kind := contentType(headers)
	if strings.Contains(kind, "json") && len(q.body) > 0 && !json.Valid([]byte(q.body.content(kind, sample))) {
		c.bad(field+".body", `is not JSON once it is filled in; put quotes around text, as in {"item":"{{sku}}"}, `+
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

func (c *checker) deduction(form *deductForm, common []header) deduction {
	d := deduction{
		question: c.request("deduct", form.requestForm, http.MethodPost, common, varSKU, varQuantity, varRequest,
			varToken),
		accepted: c.rule("deduct.accepted", form.Accepted, true),
		soldOut:  c.rule("deduct.sold_out", form.SoldOut, false),
		busy:     c.rule("deduct.busy", form.Busy, false),
		orderID:  c.place("deduct.order_id", form.OrderID, false),
		instance: c.place("deduct.instance", form.Instance, false),
		effect:   c.effect("deduct", form.effectForm),
	}
	for _, pair := range []struct {
		a, b string
		x, y *rule
	}{
		{"accepted", "sold_out", d.accepted, d.soldOut},
		{"accepted", "busy", d.accepted, d.busy},
		{"sold_out", "busy", d.soldOut, d.busy},
	} {
		if status, both := pair.x.overlaps(pair.y); both {
			c.bad("deduct."+pair.b, "takes status %s, as %s does: give each a field, and other values in equals, to "+
				"tell them apart", status, pair.a)
		}
	}
	return d
}

func (c *checker) effect(field string, form effectForm) effect {
	return effect{c.place(field+".read", form.Read, false), c.place(field+".remaining", form.Remaining, false)}
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

// rule returns nil if the rule is missing or invalid, so that nothing overlaps with it.
func (c *checker) rule(field string, form *ruleForm, need bool) *rule {
	if !c.table(field, form != nil, need) {
		return nil
	}
	before := len(c.wrong)
	r := &rule{status: c.statuses(field+".status", form.Status), field: c.place(field+".field", form.Field, false)}
	for _, n := range c.list(field+".equals", form.Equals) {
		r.equals = append(r.equals, jsonText(n))
	}
	switch {
	case len(c.wrong) > before:
	case len(r.status) == 0 && r.field.empty():
		c.bad(field, "must have status, or field and equals, or all three")
	case r.field.empty() != (len(r.equals) == 0):
		c.bad(field, "must have field and equals together")
	default:
		return r
	}
	return nil
}

func (c *checker) listing(form *ordersForm, common []header) *listing {
	l := &listing{
		question:  c.call("orders", form.callForm, http.MethodGet, common, varSKU, varToken, varCursor),
		list:      c.place("orders.list", form.List, true),
		next:      c.place("orders.next", form.Next, false),
		orderID:   c.place("orders.order_id", form.OrderID, true),
		quantity:  c.place("orders.quantity", form.Quantity, true),
		requestID: c.place("orders.request_id", form.RequestID, false),
		effect:    c.effect("orders", form.effectForm),
	}
	asks := slices.ContainsFunc(slices.Concat(l.path, l.body), func(p part) bool { return p.variable == varCursor })
	switch {
	case asks && l.next.empty():
		c.bad("orders.next", "is missing: {{%s}} needs the place where a reply tells the cursor of the next page",
			varCursor)
	case !asks && !l.next.empty():
		c.bad("orders.next", "needs {{%s}} in path or body, or the same page would be asked for without end", varCursor)
	}
	return l
}

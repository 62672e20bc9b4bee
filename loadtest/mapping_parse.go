package loadtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The variables of templates. The token is the admin token of the command line, so that no file needs to hold it.
const (
	varSKU, varQuantity, varRequest, varToken, varCursor = "sku", "quantity", "request_id", "token", "cursor"
)

// ParseMapping reads a mapping file: YAML, and so also JSON. The error joins a MappingError for each thing that is wrong, in the order of the lines.
func ParseMapping(text []byte) (*Mapping, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		reason := err.Error()
		if bytes.Contains(text, []byte("{{")) {
			reason += " (in YAML, text with {{ }} needs quotes inside { })"
		}
		return nil, &MappingError{Reason: reason}
	}
	if len(doc.Content) == 0 {
		return nil, &MappingError{Reason: "is empty; it must have read and deduct at least"}
	}
	var wrong []error
	file := newSection("", doc.Content[0], &wrong)
	common := file.headers()
	m := &Mapping{name: cmp.Or(file.text("name", false), "mapped")}
	if s := file.table("set", false); s != nil {
		m.set = new(s.simple(http.MethodPut, common, varSKU, varQuantity, varToken))
		s.done()
	}
	if s := file.table("read", true); s != nil {
		m.read = reading{s.simple(http.MethodGet, common, varSKU, varToken), s.place("quantity", true)}
		s.done()
	}
	if s := file.table("deduct", true); s != nil {
		m.deduct = s.deduction(common)
		s.done()
	}
	if s := file.table("orders", false); s != nil {
		m.orders = s.listing(common)
		s.done()
		if m.deduct.orderID.empty() {
			file.bad(s.line, "deduct.order_id", "is missing: without it no reply can be found among the orders; or leave orders out")
		}
	}
	file.done()
	if len(wrong) > 0 {
		slices.SortStableFunc(wrong, func(a, b error) int {
			x, y := a.(*MappingError), b.(*MappingError) // nothing else is noted
			return cmp.Or(cmp.Compare(x.Line, y.Line), cmp.Compare(x.Field, y.Field))
		})
		return nil, errors.Join(wrong...)
	}
	return m, nil
}

// headers are sent with every request. Content-Type is that of the bodies.
func (s *section) headers() []header {
	table := s.table("headers", false)
	if table == nil {
		return nil
	}
	var list []header
	for name := range table.values {
		value := table.template(name, true, []string{varToken})
		switch {
		case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r) }):
			table.bad(table.lineOf(name), name, "is no name of a header")
		case strings.ContainsFunc(value.String(), func(r rune) bool { return r < ' ' || r == 0x7f }):
			table.bad(table.lineOf(name), name, "cannot be sent in a header: it has a control character")
		}
		list = append(list, header{textproto.CanonicalMIMEHeaderKey(name), value})
	}
	slices.SortFunc(list, func(a, b header) int { return cmp.Compare(a.name, b.name) })
	return list
}

// simple is a call that worked or did not, by the status of the reply.
func (s *section) simple(method string, headers []header, variables ...string) question {
	c := s.call(method, headers, variables...)
	if c.status = s.statuses("status"); len(c.status) == 0 {
		c.status = []statuses{{200, 299}}
	}
	return c
}

func (s *section) call(method string, headers []header, variables ...string) question {
	c := question{
		method: cmp.Or(s.text("method", false), method), headers: headers,
		path: s.template("path", true, variables), body: s.template("body", false, variables),
	}
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if !slices.Contains(methods, c.method) {
		s.bad(s.lineOf("method"), "method", "%q is not allowed; there is %s", c.method, strings.Join(methods, ", "))
	}
	sample := values{varSKU: "a b/ü\"", varQuantity: "1", varRequest: "load-1", varToken: "t", varCursor: "2"}
	if path := c.path.path(sample); len(c.path) > 0 {
		u, err := url.Parse("http://host" + path)
		if !strings.HasPrefix(path, "/") || err != nil || u.Host != "host" || u.Fragment != "" || strings.ContainsAny(path, "#") {
			s.bad(s.lineOf("path"), "path", "%q must be a path from the address on, such as /items/{{sku}}, with a query at most", c.path)
		}
	}
	if kind := contentType(headers); strings.Contains(kind, "json") && len(c.body) > 0 && !json.Valid([]byte(c.body.content(kind, sample))) {
		s.bad(s.lineOf("body"), "body", `is not JSON once it is filled in; put quotes around text, as in {"item":"{{sku}}"}, or set headers.Content-Type`)
	}
	return c
}

// contentType is that of bodies.
func contentType(headers []header) string {
	for _, h := range headers {
		if h.name == "Content-Type" {
			return h.value.String()
		}
	}
	return "application/json"
}

func (s *section) deduction(common []header) deduction {
	d := deduction{
		question: s.call(http.MethodPost, common, varSKU, varQuantity, varRequest, varToken),
		accepted: s.rule("accepted", true), soldOut: s.rule("sold_out", false), busy: s.rule("busy", false),
		orderID: s.place("order_id", false), instance: s.place("instance", false), sight: s.sight(),
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
			s.bad(s.lineOf(pair.b), pair.b, "takes status %s, as %s does: give each a field, and other values in equals, to tell them apart", status, pair.a)
		}
	}
	return d
}

func (s *section) sight() sight { return sight{s.place("read", false), s.place("remaining", false)} }

func (s *section) rule(key string, need bool) *rule {
	table := s.table(key, need)
	if table == nil {
		return nil
	}
	before := len(*s.wrong)
	r := &rule{status: table.statuses("status"), field: table.place("field", false)}
	for _, n := range table.list("equals") {
		r.equals = append(r.equals, n.Value)
	}
	table.done()
	switch {
	case len(*s.wrong) > before:
	case len(r.status) == 0 && r.field.empty():
		table.bad(table.line, "", "must have status, or field and equals, or all three")
	case r.field.empty() != (len(r.equals) == 0):
		table.bad(table.line, "", "must have field and equals together")
	default:
		return r
	}
	return nil // what is wrong has been noted: nothing can overlap with it
}

func (s *section) listing(common []header) *listing {
	l := &listing{
		question: s.simple(http.MethodGet, common, varSKU, varToken, varCursor),
		list:     s.place("list", true), next: s.place("next", false),
		orderID: s.place("order_id", true), quantity: s.place("quantity", true), requestID: s.place("request_id", false),
		sight: s.sight(),
	}
	asks := slices.ContainsFunc(slices.Concat(l.path, l.body), func(p part) bool { return p.variable == varCursor })
	switch {
	case asks && l.next.empty():
		s.bad(s.line, "next", "is missing: {{%s}} needs the place where a reply tells the cursor of the next page", varCursor)
	case !asks && !l.next.empty():
		s.bad(s.lineOf("next"), "next", "needs {{%s}} in path or body, or the same page would be asked for without end", varCursor)
	}
	return l
}

package mapping

import (
	"net/http"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

func (t *table) listing(common question) *listing {
	l := &listing{
		question:  t.call(common.by(http.MethodGet)),
		list:      t.place("list", required),
		where:     t.where(),
		orderID:   t.entryPlace("order_id", required),
		quantity:  t.entryPlace("quantity", required),
		requestID: t.entryPlace("request_id", optional),
		effect:    effect{t.entryPlace("read", optional), t.entryPlace("remaining", optional)},
	}
	l.next = t.paging()
	t.turns(l)
	return l
}

// turns notes it if the variables that lead from page to page do not fit the form of paging.
func (t *table) turns(l *listing) {
	asks := func(name string) bool {
		return slices.ContainsFunc(slices.Concat(l.path, l.body), func(p part) bool { return p.variable == name })
	}
	of := map[pagingForm][]string{byCursor: {varCursor}, byPages: {varPage, varOffset}, byTotal: {varPage, varOffset}}
	for _, name := range []string{varCursor, varPage, varOffset} {
		if asks(name) && !slices.Contains(of[l.next.form], name) {
			t.bad("next", "is missing: {{%s}} needs the place of the cursor, and {{%s}} and {{%s}} need pages or total",
				varCursor, varPage, varOffset)
			return
		}
	}
	if names := of[l.next.form]; len(names) > 0 && !slices.ContainsFunc(names, asks) {
		t.bad("next", "needs {{%s}} in path or body, or the same page would be asked for without end",
			strings.Join(names, "}} or {{"))
	}
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
	of := t.under("next", n)
	if of == nil {
		return p
	}
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

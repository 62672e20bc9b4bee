package mapping

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
)

// file reads the whole file.
func (t *table) file() *File {
	top, f := t, &File{name: cmp.Or(t.text("name", optional), "mapped"), secrets: t.secrets}
	top.known = []string{varToken, varEnv}
	f.ids, f.skus = top.ids()
	f.late = top.duration("late", time.Millisecond, 10*time.Minute)
	common := question{headers: top.headers(nil), busy: top.rules("busy")}
	if t := top.section("set", optional, varSKU, varQuantity, varToken); t != nil {
		f.set = t.setting(common)
	}
	inSet := top.used
	top.used = make(map[string]bool)
	if t := top.section("read", required, varSKU, varToken); t != nil {
		f.read = reading{t.call(common.by(http.MethodGet)), t.place("quantity", required), t.place("less", optional)}
		t.done()
	}
	if t := top.section("deduct", required, varSKU, varQuantity, varRequest, varToken); t != nil {
		f.deduct, f.sells = t.purchase(common)
	}
	if t := top.section("orders", optional, varSKU, varToken, varCursor, varPage, varOffset); t != nil {
		f.orders = t.listing(common)
		t.done()
		f.needsOrderID(top, t.line)
	}
	top.done()
	f.conditions = t.conditions
	for _, s := range t.saves {
		if !t.used[s.name] && !inSet[s.name] {
			f.unused = append(f.unused, s.entry)
		}
	}
	for _, name := range t.saved {
		if t.used[name] {
			f.needs = append(f.needs, name)
		}
	}
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
		of.known = slices.Concat(variables, t.names, t.saved, []string{varEnv})
	}
	return of
}

// call reads a request that sells nothing. The statuses of success are a short form of accepted.
func (t *table) call(common question) question {
	q := t.request(common)
	if list := t.statuses(); len(list) > 0 {
		q.accepted, q.byDefault = rules{{status: list}}, false
	}
	return q
}

// request reads the form of a request, and which replies mean that it worked. common has what is not said.
func (t *table) request(common question) question {
	q := question{
		entry:  entry{t.line, t.name},
		method: cmp.Or(t.text("method", optional), common.method), path: t.template("path", required),
		headers: t.headers(common.headers), busy: t.busy(common.busy), accepted: t.rules("accepted"),
	}
	if !t.has("accepted") {
		q.accepted, q.byDefault = rules{{status: []statuses{{200, 299}}}}, true
	}
	q.body, q.isJSON = t.body()
	methods := []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if !slices.Contains(methods, q.method) {
		t.bad("method", "%q is not allowed; there is %s", q.method, strings.Join(methods, ", "))
	}
	sample := make(values)
	for _, name := range t.known {
		sample[name] = "1"
	}
	sample[varSKU] = "a b/ü\""
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

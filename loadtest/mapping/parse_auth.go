package mapping

import (
	"cmp"
	"net/textproto"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

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
	if strings.ContainsFunc(value.fill(nil), noHeaderValue) {
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
	of := t.under("auth", n)
	if of == nil {
		return nil, true
	}
	before := len(t.found)
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
	of.done()
	if len(list) != 1 && len(t.found) == before {
		t.bad("auth", "must be none, or have one of bearer and basic")
	}
	return list, true
}

// noHeaderRune reports whether r is not allowed in the name of a header.
func noHeaderRune(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
}

// noHeaderValue reports whether r is not allowed in the value of a header.
func noHeaderValue(r rune) bool { return r < ' ' || r == 0x7f }

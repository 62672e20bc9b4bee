package mapping

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// A source is what places are looked up in: a reply, or one entry of the list in it.
type source struct {
	doc    any
	header http.Header // nil: of an entry, which has none
	values values      // of the request, for the variables of filters
	veil   veil        // over what errors show
}

// A place is the location of a value in a reply: keys with dots (order.id, items.0.id), a JSON pointer (/order/id,
// RFC 6901), a single dot for the whole document, or a header (header:Retry-After). A filter, as in
// lines[sku=shirt].count, leaves the entries of a list whose field equals the value, so several values may be at a
// place. In a pointer a bracket is a part of the key.
type place struct {
	text   string
	header string // its name; empty: the value is in the document
	keys   []key
}

// A key leads down to a member or an element, by its name, or leaves the entries of a list that a filter lets through.
type key struct {
	name   string
	filter *filter
}

type filter struct {
	field []key // names only
	value template
}

var errNoPlace = errors.New("is no place in JSON: write keys with dots (order.id), a filter (list[field=value]), " +
	"a JSON pointer (/order/id), header:NAME, or . for the whole document")

// parsePlace parses a place. Only the given variables may occur in its filters.
func parsePlace(text string, variables []string) (place, error) {
	p := place{text: text}
	name, isHeader := strings.CutPrefix(text, "header:")
	switch {
	case isHeader && (name == "" || strings.ContainsFunc(name, noHeaderRune)):
		return place{}, fmt.Errorf("%q is no name of a header: write header:NAME", name)
	case isHeader:
		p.header = name
	case text == ".":
	case strings.HasPrefix(text, "/"):
		for name := range strings.SplitSeq(text[1:], "/") {
			p.keys = append(p.keys, key{name: strings.NewReplacer("~1", "/", "~0", "~").Replace(name)})
		}
	default:
		keys, err := parseKeys(text, variables)
		if err != nil {
			return place{}, fmt.Errorf("%q %w", text, err)
		}
		p.keys = keys
	}
	return p, nil
}

// parseKeys parses keys with dots, and filters.
func parseKeys(text string, variables []string) (keys []key, err error) {
	for rest := text; ; {
		if inside, isFilter := strings.CutPrefix(rest, "["); isFilter {
			condition, after, closed := strings.Cut(inside, "]")
			if !closed {
				return nil, errors.New("has [ without ]: write list[field=value]")
			}
			f, err := parseFilter(condition, variables)
			if err != nil {
				return nil, err
			}
			keys, rest = append(keys, key{filter: f}), after
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, errNoPlace
			}
			keys, rest = append(keys, key{name: rest[:end]}), rest[end:]
		}
		switch {
		case rest == "":
			return keys, nil
		case rest[0] == '[':
		case rest[0] == '.' && !strings.HasPrefix(rest, ".["):
			rest = rest[1:]
		default:
			return nil, errNoPlace
		}
	}
}

func parseFilter(text string, variables []string) (*filter, error) {
	field, value, found := strings.Cut(text, "=")
	names := strings.Split(field, ".")
	if !found || slices.Contains(names, "") {
		return nil, fmt.Errorf("has the filter [%s]: write list[field=value]", text)
	}
	f := new(filter)
	for _, name := range names {
		f.field = append(f.field, key{name: name})
	}
	var err error
	if f.value, err = parseTemplate(value, variables); err != nil {
		return nil, fmt.Errorf("has a filter in which %w", err)
	}
	return f, nil
}

func (p place) empty() bool { return p.text == "" }

// filtered reports whether p has a filter, so that any number of values may be there.
func (p place) filtered() bool {
	return slices.ContainsFunc(p.keys, func(k key) bool { return k.filter != nil })
}

// all returns the values at p.
func (p place) all(s source) []any {
	if p.header == "" {
		return down(s.doc, p.keys, s.values)
	}
	var found []any
	for _, value := range s.header.Values(p.header) {
		found = append(found, value)
	}
	return found
}

// down returns the values to which keys lead from a document.
func down(doc any, keys []key, v values) []any {
	for i, k := range keys {
		switch at := doc.(type) {
		case map[string]any:
			next, there := at[k.name]
			if !there || k.filter != nil {
				return nil
			}
			doc = next
		case []any:
			if k.filter != nil {
				var found []any
				for _, entry := range at {
					if k.filter.lets(entry, v) {
						found = append(found, down(entry, keys[i+1:], v)...)
					}
				}
				return found
			}
			i, err := strconv.Atoi(k.name)
			if err != nil || i < 0 || i >= len(at) {
				return nil
			}
			doc = at[i]
		default:
			return nil
		}
	}
	return []any{doc}
}

// lets reports whether the entry's field equals the value, as text or as a number.
func (f *filter) lets(entry any, v values) bool {
	found := down(entry, f.field, v)
	if len(found) != 1 {
		return false
	}
	got, ok := scalar(found[0])
	want := f.value.fill(v)
	return ok && (got == want || got == plain(want))
}

// of returns the value at p. ok is false if there is none, or if there are several.
func (p place) of(s source) (value any, ok bool) {
	found := p.all(s)
	if len(found) != 1 {
		return nil, false
	}
	return found[0], true
}

// scalar returns the text of a string, number or boolean at p.
func (p place) scalar(s source) (string, bool) {
	at, ok := p.of(s)
	if !ok {
		return "", false
	}
	return scalar(at)
}

// scalar returns the text of a string, number or boolean. A whole number has the same text in whichever form it is
// written.
func scalar(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return plain(v.String()), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// whole returns a whole number. An API may put it in quotes.
func (p place) whole(s source) (int64, error) {
	found := p.all(s)
	if len(found) > 1 {
		return 0, fmt.Errorf("has %d values at %s, and only one can be meant", len(found), p.text)
	}
	return p.sum(found, s)
}

// sum returns the sum of the values that were found at p in s, which must be whole numbers, and at least one.
func (p place) sum(found []any, s source) (total int64, err error) {
	if len(found) == 0 {
		return 0, fmt.Errorf("has no number at %s", p.text)
	}
	for _, value := range found {
		text, ok := scalar(value)
		if !ok {
			return 0, fmt.Errorf("has no number at %s", p.text)
		}
		n, err := integer(strings.TrimSpace(text))
		switch {
		case err != nil:
			return 0, fmt.Errorf("has %s at %s, which is no whole number", quoted(s.veil.over(text)), p.text)
		case n > 0 && total > total+n || n < 0 && total < total+n:
			return 0, fmt.Errorf("has numbers at %s whose sum is too large", p.text)
		}
		total += n
	}
	return total, nil
}

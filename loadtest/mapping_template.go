package loadtest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// A template is text with places for variables: /items/{{sku}}. The empty template is the empty text.
type template []part

// A part is a piece of text, or else a variable.
type part struct{ text, variable string }

// values are what the variables stand for in one request.
type values map[string]string

// parseTemplate reads text, in which only the given variables may stand.
func parseTemplate(text string, variables []string) (template, error) {
	var t template
	for text != "" {
		before, after, found := strings.Cut(text, "{{")
		if before != "" {
			t = append(t, part{text: before})
		}
		if !found {
			break
		}
		name, rest, closed := strings.Cut(after, "}}")
		if !closed {
			return nil, fmt.Errorf("{{ without }}")
		}
		if name = strings.TrimSpace(name); !slices.Contains(variables, name) {
			return nil, fmt.Errorf("{{%s}} is not known here; there is {{%s}}", name, strings.Join(variables, "}}, {{"))
		}
		t = append(t, part{variable: name})
		text = rest
	}
	return t, nil
}

// fill writes the values as they are.
func (t template) fill(v values) string {
	return t.escaped(v, func(value string) string { return value })
}

// path writes the values escaped for a path, and after the first question mark for a query.
func (t template) path(v values) string {
	var b strings.Builder
	query := false
	for _, p := range t {
		switch {
		case p.variable == "":
			b.WriteString(p.text)
			query = query || strings.Contains(p.text, "?")
		case query:
			b.WriteString(url.QueryEscape(v[p.variable]))
		default:
			b.WriteString(url.PathEscape(v[p.variable]))
		}
	}
	return b.String()
}

// content writes the values escaped for a body of that media type.
func (t template) content(kind string, v values) string {
	switch {
	case strings.Contains(kind, "json"):
		return t.escaped(v, func(value string) string {
			quoted, _ := json.Marshal(value) // of a string it cannot fail
			return string(quoted[1 : len(quoted)-1])
		})
	case strings.Contains(kind, "x-www-form-urlencoded"):
		return t.escaped(v, url.QueryEscape)
	}
	return t.fill(v)
}

func (t template) escaped(v values, escape func(string) string) string {
	var b strings.Builder
	for _, p := range t {
		if p.variable == "" {
			b.WriteString(p.text)
		} else {
			b.WriteString(escape(v[p.variable]))
		}
	}
	return b.String()
}

func (t template) String() string {
	var b strings.Builder
	for _, p := range t {
		if p.variable == "" {
			b.WriteString(p.text)
		} else {
			b.WriteString("{{" + p.variable + "}}")
		}
	}
	return b.String()
}

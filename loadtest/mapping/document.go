package mapping

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// plain returns a whole number without fraction and exponent, and any other text as it is.
func plain(text string) string {
	if n, err := integer(text); err == nil {
		return strconv.FormatInt(n, 10)
	}
	return text
}

// integer parses a whole number, exactly. It may be written with a fraction or an exponent: 40.0000, 4e1.
func integer(text string) (int64, error) {
	const longest = 100 // characters, and with an exponent of 3 digits no more work than these
	_, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > longest || len(exponent) > 4 || strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, strconv.ErrSyntax
	}
	n, isNumber := new(big.Rat).SetString(text)
	switch {
	case !isNumber:
		return 0, strconv.ErrSyntax
	case !n.IsInt() || !n.Num().IsInt64():
		return 0, strconv.ErrRange
	}
	return n.Num().Int64(), nil
}

// document returns the JSON value that body holds, with numbers as they are written. A byte order mark before it is
// left out. If body is not JSON, document returns its text.
func document(body []byte) any {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) == nil {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			return doc
		}
	}
	return strings.TrimSpace(string(body))
}

// A template is text with places for variables: /items/{{sku}}. The empty template is the empty text.
type template []part

// A part is a piece of text, or a variable, or a sum of variables (quantity+held). The text of a variable of the
// environment is its value.
type part struct {
	text, variable string
	number         bool // a whole number, not text, in a body that is a table
}

// value returns the value of a variable. It is empty if a sum or a number cannot be had, which check tells.
func (p *part) value(v values) string {
	if strings.HasPrefix(p.variable, environment) {
		return p.text
	}
	if !p.counts() {
		return v[p.variable]
	}
	n, err := p.sum(v)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// counts reports whether the value must be a whole number.
func (p *part) counts() bool { return p.number || strings.Contains(p.variable, "+") }

func (p *part) sum(v values) (total int64, err error) {
	for name := range strings.SplitSeq(p.variable, "+") {
		n, err := integer(strings.TrimSpace(v[name]))
		if err != nil {
			return 0, fmt.Errorf("{{%s}}: %s is %s, which is no whole number", p.variable, name, quoted(v[name]))
		}
		if n > 0 && total > total+n || n < 0 && total < total+n {
			return 0, fmt.Errorf("{{%s}} is too large", p.variable)
		}
		total += n
	}
	return total, nil
}

// check returns an error if a value that must be a whole number is none.
func (t template) check(v values) error {
	for _, p := range t {
		if p.counts() && !strings.HasPrefix(p.variable, environment) {
			if _, err := p.sum(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// values are the values of the variables in one request.
type values map[string]string

// parseTemplate parses text, in which only the given variables may occur.
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
		p, err := variable(strings.TrimSpace(name), variables)
		if err != nil {
			return nil, err
		}
		t = append(t, p)
		text = rest
	}
	return t, nil
}

// variable returns the part that a variable is.
func variable(name string, variables []string) (part, error) {
	ofEnvironment, isEnvironment := strings.CutPrefix(name, environment)
	switch {
	case isEnvironment && slices.Contains(variables, varEnv):
		value := os.Getenv(ofEnvironment)
		if value == "" {
			return part{}, fmt.Errorf("{{%s}} is not set: give the environment variable %s a value", name,
				ofEnvironment)
		}
		return part{text: value, variable: name}, nil
	}
	sum, number := strings.CutSuffix(name, ":number")
	var names []string
	for name := range strings.SplitSeq(sum, "+") {
		names = append(names, strings.TrimSpace(name))
		if !slices.Contains(variables, names[len(names)-1]) {
			return part{}, fmt.Errorf("{{%s}} is not known here; there is {{%s}}", names[len(names)-1],
				strings.Join(variables, "}}, {{"))
		}
	}
	return part{variable: strings.Join(names, "+"), number: number}, nil
}

// fill inserts the values as they are.
func (t template) fill(v values) string {
	return t.escaped(v, func(value string) string { return value })
}

// path inserts the values escaped for a path, and after the first question mark for a query.
func (t template) path(v values) string {
	i := slices.IndexFunc(t, func(p part) bool { return p.variable == "" && strings.Contains(p.text, "?") })
	if i < 0 {
		i = len(t)
	}
	return t[:i].escaped(v, url.PathEscape) + t[i:].escaped(v, url.QueryEscape)
}

// content inserts the values escaped for a body of that media type.
func (t template) content(kind string, v values) string {
	switch {
	case strings.Contains(kind, "json"):
		return t.escaped(v, inJSON)
	case strings.Contains(kind, "x-www-form-urlencoded"):
		return t.escaped(v, url.QueryEscape)
	case strings.Contains(kind, "xml"):
		return t.escaped(v, html.EscapeString)
	}
	return t.fill(v)
}

// inJSON returns a text as it stands between the quotes of JSON.
func inJSON(text string) string {
	quoted, _ := json.Marshal(text) // of a string it cannot fail
	return string(quoted[1 : len(quoted)-1])
}

func (t template) escaped(v values, escape func(string) string) string {
	return t.text(func(p *part) string { return escape(p.value(v)) })
}

func (t template) String() string {
	return t.text(func(p *part) string { return "{{" + p.variable + "}}" })
}

// text returns the template with what of returns for each variable.
func (t template) text(of func(*part) string) string {
	var b strings.Builder
	for i := range t {
		if t[i].variable == "" {
			b.WriteString(t[i].text)
		} else {
			b.WriteString(of(&t[i]))
		}
	}
	return b.String()
}

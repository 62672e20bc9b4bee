package loadtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A place is where in a JSON document something stands: keys with dots (order.id, items.0.id), a JSON pointer (/order/id, RFC 6901), or
// a dot alone for the whole document.
type place struct {
	text string
	keys []string
}

func parsePlace(text string) (place, error) {
	p := place{text: text}
	switch {
	case text == ".":
		p.keys = []string{}
	case strings.HasPrefix(text, "/"):
		for key := range strings.SplitSeq(text[1:], "/") {
			p.keys = append(p.keys, strings.NewReplacer("~1", "/", "~0", "~").Replace(key))
		}
	default:
		p.keys = strings.Split(text, ".")
		for _, key := range p.keys {
			if key == "" {
				return place{}, fmt.Errorf("%q is no place in JSON: write keys with dots (order.id), a JSON pointer (/order/id), or . for the whole document", text)
			}
		}
	}
	return p, nil
}

func (p place) empty() bool { return p.text == "" }

func (p place) of(doc any) (any, bool) {
	for _, key := range p.keys {
		switch at := doc.(type) {
		case map[string]any:
			next, ok := at[key]
			if !ok {
				return nil, false
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(at) {
				return nil, false
			}
			doc = at[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// scalar is the text of a string, number or boolean.
func (p place) scalar(doc any) (string, bool) {
	at, ok := p.of(doc)
	if !ok {
		return "", false
	}
	switch v := at.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// whole is a whole number; an API may put it in quotes.
func (p place) whole(doc any) (int64, error) {
	text, ok := p.scalar(doc)
	if !ok {
		return 0, fmt.Errorf("has no number at %s", p.text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("has %q at %s, which is no whole number", text, p.text)
	}
	return n, nil
}

// document is the one JSON value that body holds, with numbers as they are written; or else its text.
func document(body []byte) any {
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

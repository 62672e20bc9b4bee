package mapping

import (
	"encoding/json"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxValues limits the values in a body: an alias in YAML may stand for many, and for itself.
const maxValues = 1000

// body reads the body of a request: text, or a table or a list, which becomes JSON in which all values are escaped.
func (t *table) body() (body template, isJSON bool) {
	n := t.value("body", optional)
	if n == nil || target(n).Kind == yaml.ScalarNode {
		return t.template("body", optional), false
	}
	before := len(t.found)
	left := maxValues
	body = t.json(n, &left)
	if left <= 0 {
		t.found = t.found[:before]
		t.bad("body", "has more than %d values, or contains itself", maxValues)
		return nil, true
	}
	return body, true
}

// json returns the template of the JSON that n is. left is the number of values that there may still be.
func (t *table) json(n *yaml.Node, left *int) (json template) {
	if *left--; *left <= 0 {
		return nil
	}
	text := func(text string) { json = append(json, part{text: text}) }
	switch n = target(n); n.Kind {
	case yaml.MappingNode:
		seen := make(map[string]bool)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := target(n.Content[i])
			switch {
			case key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge":
				t.add(n.Content[i].Line, t.field("body"), "can only have keys that are text")
			case seen[key.Value]:
				t.add(key.Line, t.field("body."+key.Value), "is there twice")
			}
			seen[key.Value] = true
			text(map[bool]string{true: "{", false: ","}[i == 0] + `"` + inJSON(key.Value) + `":`)
			json = append(json, t.json(n.Content[i+1], left)...)
		}
		if len(n.Content) == 0 {
			text("{")
		}
		text("}")
	case yaml.SequenceNode:
		text("[")
		for i, entry := range n.Content {
			if i > 0 {
				text(",")
			}
			json = append(json, t.json(entry, left)...)
		}
		text("]")
	default:
		return t.jsonScalar(n)
	}
	return json
}

func (t *table) jsonScalar(n *yaml.Node) template {
	value := strings.ToLower(n.Value)
	switch tag := n.ShortTag(); {
	case tag == "!!null":
		return template{{text: "null"}}
	case tag == "!!bool", (tag == "!!int" || tag == "!!float") && json.Valid([]byte(value)):
		return template{{text: value}}
	}
	parsed, err := parseTemplate(n.Value, t.known)
	if err != nil {
		t.add(n.Line, t.field("body"), "%v", err)
	}
	t.keep(parsed)
	if len(parsed) == 1 && parsed[0].number {
		return parsed
	}
	for i, p := range parsed {
		if p.number {
			t.add(n.Line, t.field("body"), "{{%s:number}} must stand alone: it is a number, and here is text",
				p.variable)
		}
		if p.variable == "" {
			parsed[i].text = inJSON(p.text)
		}
	}
	return slices.Concat(template{{text: `"`}}, parsed, template{{text: `"`}})
}

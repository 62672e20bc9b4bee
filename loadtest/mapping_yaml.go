package loadtest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A MappingError is one thing that is wrong in a mapping file. ParseMapping returns all of them, joined.
type MappingError struct {
	Line   int // from 1; 0: of the file as a whole
	Field  string
	Reason string
}

func (e *MappingError) Error() string {
	text := e.Reason
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}

// A section is one table of a mapping file. Its methods take a value out, and note what is wrong with it.
type section struct {
	name   string // "" of the file
	line   int
	values map[string]*yaml.Node
	keys   []string // that were asked for: all there may be
	wrong  *[]error
}

// newSection makes a section of a node. What is no table is noted, and counts as an empty one.
func newSection(name string, node *yaml.Node, wrong *[]error) *section {
	s := &section{name: name, line: node.Line, values: make(map[string]*yaml.Node), wrong: wrong}
	node = behind(node)
	if node.Kind != yaml.MappingNode {
		s.bad(node.Line, "", "must be a table of keys and values")
		return s
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := behind(node.Content[i]).Value
		if _, again := s.values[key]; again {
			s.bad(node.Content[i].Line, key, "is there twice")
		}
		s.values[key] = behind(node.Content[i+1])
	}
	return s
}

// behind is what an alias stands for.
func behind(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (s *section) bad(line int, key, format string, args ...any) {
	*s.wrong = append(*s.wrong, &MappingError{line, s.field(key), fmt.Sprintf(format, args...)})
}

func (s *section) field(key string) string { return strings.Trim(s.name+"."+key, ".") }

func (s *section) take(key string) *yaml.Node {
	s.keys = append(s.keys, key)
	return s.values[key]
}

// done notes the keys that nobody asked for.
func (s *section) done() {
	for key, node := range s.values {
		if !slices.Contains(s.keys, key) {
			slices.Sort(s.keys)
			where := "the file"
			if s.name != "" {
				where = s.name
			}
			s.bad(node.Line, key, "is no key of %s; there is %s", where, strings.Join(s.keys, ", "))
		}
	}
}

// table opens the section of that name, or returns nil.
func (s *section) table(key string, need bool) *section {
	node := s.take(key)
	if node == nil {
		if need {
			s.bad(s.line, key, "is missing")
		}
		return nil
	}
	return newSection(s.field(key), node, s.wrong)
}

// text is a scalar as it is written: a number needs no quotes. Empty if there is none.
func (s *section) text(key string, need bool) string {
	node := s.take(key)
	switch {
	case node == nil:
		if need {
			s.bad(s.line, key, "is missing")
		}
		return ""
	case node.Kind != yaml.ScalarNode:
		s.bad(node.Line, key, "must be text")
		return ""
	case node.Value == "":
		s.bad(node.Line, key, "is empty; leave it out, or give a value")
	}
	return node.Value
}

// lineOf is where key stands, if it does.
func (s *section) lineOf(key string) int {
	if node := s.values[key]; node != nil {
		return node.Line
	}
	return s.line
}

func (s *section) template(key string, need bool, variables []string) template {
	t, err := parseTemplate(s.text(key, need), variables)
	if err != nil {
		s.bad(s.lineOf(key), key, "%v", err)
	}
	return t
}

func (s *section) place(key string, need bool) place {
	text := s.text(key, need)
	if text == "" {
		return place{}
	}
	p, err := parsePlace(text)
	if err != nil {
		s.bad(s.lineOf(key), key, "%v", err)
	}
	return p
}

// list is the scalars of a list, or of one scalar.
func (s *section) list(key string) []*yaml.Node {
	node := s.take(key)
	if node == nil {
		return nil
	}
	nodes := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		nodes = node.Content
	}
	if len(nodes) == 0 {
		s.bad(node.Line, key, "is an empty list; leave it out, or give a value")
	}
	var scalars []*yaml.Node
	for _, n := range nodes {
		if n = behind(n); n.Kind != yaml.ScalarNode {
			s.bad(n.Line, key, "must be a value, or a list of values")
			continue
		}
		scalars = append(scalars, n)
	}
	return scalars
}

func (s *section) statuses(key string) []statuses {
	var list []statuses
	for _, n := range s.list(key) {
		class, isClass := strings.CutSuffix(strings.ToLower(n.Value), "xx")
		status, err := strconv.Atoi(class)
		switch {
		case err == nil && isClass && 2 <= status && status <= 5:
			list = append(list, statuses{status * 100, status*100 + 99})
		case err == nil && !isClass && 200 <= status && status <= 599:
			list = append(list, statuses{status, status})
		default:
			s.bad(n.Line, key, "%q is no HTTP status; there is 200 to 599, and 2xx, 3xx, 4xx and 5xx for all that begin so", n.Value)
		}
	}
	return list
}

package main

import (
	"fmt"
	"strings"
)

// A score is what became of a sample.
type score struct {
	seed                uint64
	of                  int // how many the operators make, with those that do not compile
	long                bool
	tried, killed, same int
	survivors           []string
}

func (s *score) add(m *specimen, src *source) {
	before, after := m.lines(src.text(m.change))
	diff := fmt.Sprintf("%s:%d\n%s", m.path(), m.line, marked("-", before)+marked("+", after))
	switch m.result.Verdict {
	case killed:
		s.killed++
	case same:
		s.same++
	case survived:
		s.survivors = append(s.survivors, diff+"  "+m.result.How+"\n")
	default:
		return
	}
	s.tried++
}

// marked puts a mark before each line.
func marked(mark, text string) string {
	lines := strings.Split(strings.Trim(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = mark + line + "\n"
	}
	return strings.Join(lines, "")
}

// percent is of the mutants that change something.
func (s *score) percent() float64 {
	if n := s.killed + len(s.survivors); n > 0 {
		return 100 * float64(s.killed) / float64(n)
	}
	return 0
}

func (s *score) String() string {
	return fmt.Sprintf("seed %d: %d mutants of some %d, %d killed, %d change nothing, %d survived: %.1f %% killed",
		s.seed, s.tried, s.of, s.killed, s.same, len(s.survivors), s.percent())
}

// section is what the page says of the sample.
func (s *score) section() string {
	var b strings.Builder
	tests := "the long ones of make verify, too"
	if !s.long {
		tests = "the long ones of make verify not"
	}
	fmt.Fprintf(&b, `## A fresh sample

Nobody wrote these mutants: operators made them of the Go code of the service, and a seed chose %d of some %d. A
comparison is shifted or negated, a condition is true or false whatever it finds, && and || change places, a number is
one more or less, a call, an assignment or a defer is left out, a result is nil or zero. Durations, panics and log lines
stay. All tests that reach the func were tried, %s. %d change nothing, as the tables say.

| seed | mutants | killed | same | survived | killed, of those that change something |
|---:|---:|---:|---:|---:|---:|
| %d | %d | %d | %d | %d | %.1f %% |

`, s.tried, s.of, tests, s.same, s.seed, s.tried, s.killed, s.same, len(s.survivors), s.percent())
	if len(s.survivors) > 0 {
		b.WriteString("What survived:\n\n```diff\n" + strings.Join(s.survivors, "\n") + "```\n\n")
	}
	return b.String()
}

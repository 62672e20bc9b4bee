package report

import (
	"regexp"
	"slices"
	"strings"

	"example.com/stock/lab"
)

// A table is a chapter of the matrix. It has a row for each variant of each scenario, a column for each strategy that
// occurs, and one for the lab's own code.
type table struct {
	Group      lab.Group
	Strategies []string // the columns: strategies, and the order service
	HasCode    bool     // one more column
	Rows       []row
}

type row struct {
	Scenario lab.Scenario
	Variant  lab.Text
	First    bool // the first row of its scenario
	Cells    []*entry
	Code     []*entry // wrong and fixed code, in the first row of a scenario
}

// An entry is a case of the catalogue with its result in a run.
type entry struct {
	Case   lab.Case
	Cell   lab.Cell
	Known  bool // the run has a result
	Anchor string
}

// Word returns the word that the matrix shows.
func (e *entry) Word() lab.Text {
	switch {
	case !e.Known:
		return phrases.Say("not-run")
	case e.Cell.Skipped != "":
		return phrases.Say("skipped")
	case e.Cell.Failed != "":
		return phrases.Say("no-verdict")
	}
	return e.Cell.Observed.Word()
}

// Class returns the colour class of a cell. A cell that contradicts its forecast has a separate class.
func (e *entry) Class() string {
	switch {
	case !e.Known || e.Cell.Skipped != "":
		return "none"
	case !e.Cell.AsPredicted:
		return "wrong"
	}
	return class(e.Cell.Observed)
}

// tables returns the matrix. If partial, it leaves out the scenarios that were not run.
func (m Matrix) tables(partial bool) []table {
	var list []table
	for _, group := range lab.Groups() {
		t := table{Group: group}
		var scenarios []lab.Scenario
		for _, s := range m.Scenarios {
			ran := slices.ContainsFunc(m.Run.Cells, func(c lab.Cell) bool { return c.Scenario == s.Name })
			if s.Group == group && (ran || !partial) {
				scenarios = append(scenarios, s)
				for _, c := range s.Cases {
					if column := c.Column(); column == "" {
						t.HasCode = true
					} else if !slices.Contains(t.Strategies, column) {
						t.Strategies = append(t.Strategies, column)
					}
				}
			}
		}
		if len(scenarios) == 0 {
			continue
		}
		slices.SortStableFunc(
			t.Strategies,
			func(a, b string) int { return slices.Index(m.columns(), a) - slices.Index(m.columns(), b) },
		)
		for _, s := range scenarios {
			t.Rows = append(t.Rows, m.rows(s, t.Strategies)...)
		}
		list = append(list, t)
	}
	return list
}

// columns returns all strategies of the catalogue, in the order in which it first names them.
func (m Matrix) columns() []string {
	var names []string
	for _, s := range m.Scenarios {
		for _, c := range s.Cases {
			if column := c.Column(); column != "" && !slices.Contains(names, column) {
				names = append(names, column)
			}
		}
	}
	return names
}

// rows returns the rows of one scenario.
func (m Matrix) rows(s lab.Scenario, strategies []string) []row {
	var list []row
	var code []*entry
	for _, e := range m.entries(s) {
		if e.Case.Column() == "" {
			code = append(code, e)
			continue
		}
		variant := e.Case.Label
		if e.Case.Store != "" {
			variant = lab.Text{
				EN: strings.TrimPrefix(variant.EN+", on "+e.Case.Store, ", "),
				ZH: strings.TrimPrefix(variant.ZH+"，"+e.Case.Store, "，"),
			}
		}
		i := slices.IndexFunc(list, func(r row) bool { return r.Variant == variant })
		if i < 0 {
			i = len(list)
			list = append(list, row{Scenario: s, Variant: variant, Cells: make([]*entry, len(strategies))})
		}
		list[i].Cells[slices.Index(strategies, e.Case.Column())] = e
	}
	if len(list) == 0 {
		list = []row{{Scenario: s, Cells: make([]*entry, len(strategies))}}
	}
	list[0].First, list[0].Code = true, code
	return list
}

func (m Matrix) entries(s lab.Scenario) []*entry {
	var list []*entry
	for _, c := range s.Cases {
		e := &entry{Case: c, Anchor: Anchor(s.Name, c.String())}
		e.Cell, e.Known = m.cellOf(s, c)
		list = append(list, e)
	}
	return list
}

// class returns the colour class of an outcome: good, odd or bad.
func class(o lab.Outcome) string {
	switch o {
	case lab.Safe, lab.Refuses:
		return "good"
	case lab.Oversells, lab.Blocks, lab.Duplicates, lab.HalfDone, lab.Starves, lab.Loses, lab.Reorders, lab.Exceeds:
		return "bad"
	}
	return "odd"
}

var unnamed = regexp.MustCompile(`[^a-z0-9]+`)

// Anchor returns the anchor of the evidence of a case, in Markdown and in HTML.
func Anchor(scenario, name string) string {
	return scenario + "." + strings.Trim(unnamed.ReplaceAllString(strings.ToLower(name), "-"), "-")
}

package grade

import (
	"fmt"
	"io"
	"strings"

	"example.com/stock/internal/words"
)

// columns of a line: the scenario, the grade.
const (
	nameColumns  = 24
	gradeColumns = 14
)

// pad fills a text up to a number of columns.
func pad(text string, columns int) string {
	return text + strings.Repeat(" ", max(1, columns-words.Columns(text)))
}

// WriteScenario writes what a scenario forces.
func WriteScenario(w io.Writer, s Scenario, lang string) {
	fmt.Fprintf(w, "%s%s\n    %s\n    %s\n", pad(s.Name, nameColumns), s.Title().In(lang), s.Forced().In(lang),
		lesson(s.Read).In(lang))
}

// lesson returns the page to read in each language.
func lesson(page string) words.Text {
	return words.Text{EN: page, ZH: strings.TrimSuffix(page, ".md") + ".zh-CN.md"}
}

// WriteResult writes the grade of a scenario, why, and for a failure what to read.
func WriteResult(w io.Writer, r Result, lang string) {
	fmt.Fprintf(w, "%s%s%s\n",
		pad(r.Scenario, nameColumns), pad(r.Grade.Word().In(lang), gradeColumns), r.Said().In(lang))
	if r.Grade.Failed() {
		fmt.Fprintf(w, "%s%s\n", strings.Repeat(" ", nameColumns+gradeColumns), lesson(r.Read).In(lang))
	}
}

// WriteSummary writes in how many of the scenarios that could be tested the lock holds.
func WriteSummary(w io.Writer, r Report, lang string) { fmt.Fprintf(w, "\n%s\n", r.summary().In(lang)) }

func (r Report) summary() words.Text {
	holds, testable := 0, 0
	for _, result := range r.Results {
		if result.Grade == Holds {
			holds++
		}
		if result.Grade != NotTestable {
			testable++
		}
	}
	return say("page.took", "n", holds, "testable", testable, "seconds", fmt.Sprintf("%.0f", r.TookMS/1000))
}

// Package report shows runs of the fault lab: the matrix as Markdown and as words in a kept file, and an HTML page with
// the evidence and a timeline of every case. All of it is generated from a run and the catalogue.
package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"example.com/stock/lab"
)

// A Matrix combines a run of the lab with the catalogue.
type Matrix struct {
	Scenarios []lab.Scenario // the whole catalogue, in its order
	Run       lab.Report     // a run of the whole catalogue or a part
}

// A Word is one kept cell of the matrix, without details that differ from run to run.
type Word struct {
	Scenario  string      `json:"scenario"`
	Case      string      `json:"case"` // lab.Case.String of the catalogue's case
	Predicted lab.Outcome `json:"predicted"`
	Observed  lab.Outcome `json:"observed"`
}

func (w Word) key() [2]string { return [2]string{w.Scenario, w.Case} }

// Words returns the words of a run, in the order of the catalogue. Cells without a verdict have no word.
func (m Matrix) Words() []Word {
	var list []Word
	for _, s := range m.Scenarios {
		for _, c := range s.Cases {
			if cell, ok := m.cellOf(s, c); ok && cell.Observed != "" && cell.Failed == "" {
				list = append(list, Word{s.Name, c.String(), cell.Predicted.Outcome, cell.Observed})
			}
		}
	}
	return list
}

// cellOf returns the cell of a case.
func (m Matrix) cellOf(s lab.Scenario, c lab.Case) (cell lab.Cell, found bool) {
	for _, candidate := range m.Run.Cells {
		if candidate.Scenario == s.Name && caseOf(s, candidate).Same(c) {
			return candidate, true
		}
	}
	return cell, false
}

// caseOf returns the case of a cell. A cell always names its store; a case names it only if it is not the strategy's
// default.
func caseOf(s lab.Scenario, cell lab.Cell) lab.Case {
	want := cell.Case()
	for _, store := range []string{want.Store, ""} {
		want.Store = store
		if i := slices.IndexFunc(s.Cases, want.Same); i >= 0 {
			return s.Cases[i]
		}
	}
	return cell.Case()
}

// WriteWords writes one word in each line, so that a change is one line of a diff.
func WriteWords(w io.Writer, words []Word) error {
	fmt.Fprintln(w, "[")
	for i, word := range words {
		text, err := json.Marshal(word)
		if err != nil {
			return err
		}
		comma := ","
		if i == len(words)-1 {
			comma = ""
		}
		fmt.Fprintf(w, " %s%s\n", text, comma)
	}
	_, err := fmt.Fprintln(w, "]")
	return err
}

// ReadWords reads what WriteWords wrote.
func ReadWords(r io.Reader) ([]Word, error) {
	var words []Word
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&words); err != nil {
		return nil, err
	}
	return words, nil
}

// mend is the advice for kept words that a run contradicts.
const mend = "understand why, then run make lab-matrix"

// Stale returns the differences between the kept words and the catalogue. It needs no run.
func (m Matrix) Stale(kept []Word) []string {
	var wrong []string
	has := make(map[[2]string]bool)
	for _, w := range kept {
		has[w.key()] = true
	}
	known := make(map[[2]string]lab.Case)
	for _, s := range m.Scenarios {
		for _, c := range s.Cases {
			key := [2]string{s.Name, c.String()}
			known[key] = c
			if !has[key] {
				wrong = append(wrong, fmt.Sprintf(
					"%s: %s: it has no word in the matrix that is kept: run make lab-matrix", s.Name, c))
			}
		}
	}
	seen := make(map[[2]string]bool)
	for _, w := range kept {
		c, ok := known[w.key()]
		switch {
		case !ok:
			wrong = append(wrong, fmt.Sprintf(
				"%s: %s: the matrix that is kept has it, the catalogue has not: run make lab-matrix",
				w.Scenario, w.Case))
		case seen[w.key()]:
			wrong = append(wrong, fmt.Sprintf("%s: %s: twice in the matrix that is kept", w.Scenario, w.Case))
		case c.Want.Outcome != "" && c.Want.Outcome != w.Predicted:
			wrong = append(wrong, fmt.Sprintf("%s: %s: the catalogue states %s, the matrix that is kept %s: %s",
				w.Scenario, w.Case, c.Want.Outcome, w.Predicted, mend))
		case w.Predicted != w.Observed || !slices.Contains(lab.Outcomes(), w.Observed):
			wrong = append(wrong, fmt.Sprintf(
				"%s: %s: the matrix that is kept has %q where %q was predicted: a contradiction is no result",
				w.Scenario, w.Case, w.Observed, w.Predicted))
		}
		seen[w.key()] = true
	}
	return wrong
}

// Changed returns the differences between a whole or partial run and the kept words. Skipped cells do not count.
func (m Matrix) Changed(kept []Word) []string {
	var wrong []string
	for _, w := range m.Words() {
		i := slices.IndexFunc(kept, func(k Word) bool { return k.key() == w.key() })
		again := fmt.Sprintf("stock lab run %s -v", w.Scenario)
		switch {
		case i < 0:
			wrong = append(wrong, fmt.Sprintf("%s: %s: it has no word in the matrix that is kept: run make lab-matrix",
				w.Scenario, w.Case))
		case kept[i].Observed != w.Observed:
			wrong = append(wrong, fmt.Sprintf("%s: %s: the run says %s, the matrix that is kept says %s (%s): %s",
				w.Scenario, w.Case, w.Observed, kept[i].Observed, again, mend))
		case kept[i].Predicted != w.Predicted:
			wrong = append(wrong, fmt.Sprintf(
				"%s: %s: the promise lets expect %s, in the matrix that is kept %s (%s): %s",
				w.Scenario, w.Case, w.Predicted, kept[i].Predicted, again, mend))
		}
	}
	for _, c := range m.Run.Cells {
		if c.Failed != "" {
			wrong = append(wrong, fmt.Sprintf("%s: %s: no verdict: %s", c.Scenario, c.Case(), c.Failed))
		}
	}
	return wrong
}

// ErrNotWhole means that a run cannot be kept, because cells are missing or not as predicted.
var ErrNotWhole = errors.New("a matrix is kept only of a whole run in which everything was as predicted")

// Whole returns an error unless the run can be kept. The error names every cell that is missing or not as predicted.
func (m Matrix) Whole() error {
	var errs []error
	for _, s := range m.Scenarios {
		for _, c := range s.Cases {
			switch cell, ok := m.cellOf(s, c); {
			case !ok:
				errs = append(errs, fmt.Errorf("%s: %s: it was not run", s.Name, c))
			case !cell.AsPredicted:
				errs = append(errs, fmt.Errorf("%s: %s: %s", s.Name, c, cell.Verdict().EN))
			}
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errors.Join(append([]error{ErrNotWhole}, errs...)...)
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

// show writes the result to where it was asked for.
func (f *loadFlags) show(results []*loadtest.Result, stdout io.Writer) error {
	if f.json != "" && f.json != "-" {
		file, err := os.Create(f.json)
		if err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		if err := errors.Join(loadtest.WriteJSON(file, results), file.Close()); err != nil {
			return fmt.Errorf("--json: %w", err)
		}
		f.kept = append(f.kept, f.json)
	}
	if f.json == "-" {
		return loadtest.WriteJSON(stdout, results)
	}
	columns := width(stdout)
	style := report.Style{Width: columns, Color: columns > 0 && !f.noColor && os.Getenv("NO_COLOR") == ""}
	var err error
	if len(results) == 1 {
		err = report.WriteReport(stdout, results[0], style)
	} else {
		err = report.WriteTable(stdout, results, style)
	}
	return errors.Join(err, report.WriteExpectations(stdout, results, style))
}

// width is the number of columns of w if it is a terminal, and otherwise 0.
func width(w io.Writer) int {
	file, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return cmp.Or(columns, 120) // some terminals do not know their size
}

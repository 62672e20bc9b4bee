package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/lab"
)

// found is a file with a run of one scenario of the lab, as it is if all is as predicted.
func found(t *testing.T, change func(*lab.Report)) string {
	t.Helper()
	report := lab.Report{Version: lab.ReportVersion}
	for _, s := range scenarios(t) {
		if s.Name == "unlock-before-commit" {
			for _, c := range s.Cases {
				report.Cells = append(report.Cells, lab.Cell{
					Scenario: s.Name, Code: c.Code, Variant: c.Label.EN, Predicted: c.Want, Observed: c.Want.Outcome, AsPredicted: true,
				})
			}
		}
	}
	if len(report.Cells) == 0 {
		t.Fatal("the catalogue has no unlock-before-commit")
	}
	change(&report)
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lab.json")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// A part of the catalogue can be compared with the matrix of this repository, and shown; only a whole run can become one.
func TestLabMatrix(t *testing.T) {
	const kept = "../../docs/failure-modes.json"
	for _, row := range []struct {
		name   string
		change func(*lab.Report)
		args   []string
		status int // 0: no error
		says   string
	}{
		{"as it was", func(*lab.Report) {}, []string{"--check", kept}, 0, "2 words are what " + kept + " says"},
		{
			"a cell changed", func(r *lab.Report) { r.Cells[0].Observed = lab.Safe },
			[]string{"--check", kept},
			exitVerdict,
			"unlock-before-commit: naive, unlock, then commit: the run says safe, the matrix that is kept says oversells (stock lab run unlock-before-commit -v): understand why, then run make lab-matrix",
		},
		{"a part is not kept", func(*lab.Report) {}, []string{"--words", "out"}, exitVerdict, "no-lock: none: it was not run"},
		{"another version", func(r *lab.Report) { r.Version = 99 }, nil, 1, "version 99 of the report"},
		{"no language", func(*lab.Report) {}, []string{"--lang", "fr"}, 1, "--lang: must be en or zh"},
	} {
		t.Run(row.name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "page.html")
			out, _, err := run(t.Context(), append([]string{"lab", "matrix", found(t, row.change), "--html", page}, row.args...)...)
			var exit exitError
			switch {
			case row.status == 0 && err != nil, row.status != 0 && err == nil, row.status == exitVerdict && (!errors.As(err, &exit) || exit.code != exitVerdict):
				t.Fatalf("%v\n%s", err, out)
			case err != nil:
				out += err.Error()
			}
			if !strings.Contains(out, row.says) {
				t.Errorf("%q is not in %s", row.says, out)
			}
			if row.status == 1 {
				return
			}
			if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "unlock, then commit") {
				t.Errorf("the page: %v", err)
			}
		})
	}
}

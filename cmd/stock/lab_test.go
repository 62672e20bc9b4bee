package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/stock/lab"
	"example.com/stock/lab/scenario"
	"example.com/stock/lock/locktest/server"
	"example.com/stock/lock/locktest/servertest"
)

// scenarios returns the catalogue of the lab.
func scenarios(t *testing.T) []lab.Scenario {
	t.Helper()
	list, err := scenario.All()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestLabListsEveryScenario(t *testing.T) {
	t.Parallel()
	for _, lang := range []string{"en", "zh"} {
		out, _, err := run(t.Context(), "lab", "list", "--lang", lang)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range scenarios(t) {
			if !strings.Contains(out, s.Name+" ") || !strings.Contains(out, s.Title.In(lang)) {
				t.Errorf("%s: %s is not listed:\n%s", lang, s.Name, out)
			}
		}
	}
	out, _, err := run(t.Context(), "lab", "list", "--group", "B")
	if err != nil || strings.Contains(out, "no-lock") || !strings.Contains(out, "delete-anothers-lock") {
		t.Errorf("group B: %v\n%s", err, out)
	}
}

func TestLabRefusesWhatIsImpossible(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ args, want string }{
		{"run", "name a scenario"},
		{"run no-lokc", `unknown scenario "no-lokc"; did you mean no-lock?`},
		{"run delete-anothers-lock --strategy redlok", `unknown strategy "redlok"; did you mean redlock?`},
		{"run delete-anothers-lock --strategy redlock", "redlock is no case of these scenarios"},
		{"run no-lock --json /nowhere/at/all", "--json: "},
		{"run no-lock --html /nowhere/at/all", "--html: "},
		{"soak --json /nowhere/at/all", "--json: "},
		{"soak --for 10ms", "--for: must be from 1s to 24h"},
		{"soak 10m", "takes no argument"},
		{"list --group Z", "--group: must be A to H"},
	} {
		_, _, err := run(t.Context(), append([]string{"lab"}, strings.Fields(row.args)...)...)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("stock lab %s: %v, want %q", row.args, err, row.want)
		}
	}
}

// One scenario on the command line: its output, its files, and its exit status.
func TestLabRun(t *testing.T) {
	t.Parallel()
	servertest.Needs(t, server.Redis)
	file := filepath.Join(t.TempDir(), "lab.json")
	page := filepath.Join(t.TempDir(), "lab.html")
	cmd := exec.CommandContext(t.Context(), program.Path(t), "lab", "run", "local-mutex", "-v", "--json", file,
		"--html", page)
	var exit *exec.ExitError
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A mutex in the process, and a second process", "fix: A lock that all instances share.",
		"2 instances: oversells, as predicted (by its promise scope: process)",
		"1 in stock, 2 sold, 0 left: oversold by 1", "paused",
		"2 cells in ", ": 2 as predicted, 0 not, 0 skipped.",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	text, err := os.ReadFile(page)
	for _, mark := range []string{`class="bar b-overlap" data-step="`, `class="said harm"`} {
		if err != nil || !strings.Contains(string(text), mark) {
			t.Errorf("the page does not show the pair of writes that met: no %s, %v", mark, err)
		}
	}
	if text, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	var report lab.Report
	if err := json.Unmarshal(text, &report); err != nil || len(report.Cells) != 2 ||
		report.Version != lab.ReportVersion {
		t.Errorf("%v: %s", err, text)
	}
}

// found is a file with a run of one scenario of the lab, as it is if all is as predicted.
func found(t *testing.T, change func(*lab.Report)) string {
	t.Helper()
	report := lab.Report{Version: lab.ReportVersion}
	for _, s := range scenarios(t) {
		if s.Name == "unlock-before-commit" {
			for _, c := range s.Cases {
				report.Cells = append(report.Cells, lab.Cell{
					Scenario: s.Name, Code: c.Code, Variant: c.Label.EN, Predicted: c.Want, Observed: c.Want.Outcome,
					AsPredicted: true,
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
	return file(t, "lab.json", string(text))
}

// A part of the catalogue can be compared with the matrix of this repository, and shown. Only a whole run can become a
// matrix.
func TestLabMatrix(t *testing.T) {
	t.Parallel()
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
			exitVerdict, "the run says safe, the matrix that is kept says oversells",
		},
		{
			"a part is not kept", func(*lab.Report) {},
			[]string{"--words", "out"},
			exitVerdict,
			"no-lock: none: it was not run",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			page := filepath.Join(t.TempDir(), "page.html")
			args := append([]string{"lab", "matrix", found(t, row.change), "--html", page}, row.args...)
			if status, said := command(t, args...); status != row.status || !strings.Contains(said, row.says) {
				t.Errorf("status %d, want %d, and %q in\n%s", status, row.status, row.says, said)
			}
			if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "unlock, then commit") {
				t.Errorf("the page: %v", err)
			}
		})
	}
	_, _, err := run(t.Context(), "lab", "matrix", found(t, func(r *lab.Report) { r.Version = 99 }))
	says(t, err, "version 99 of the report")
}

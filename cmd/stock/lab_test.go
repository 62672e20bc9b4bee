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
	for _, row := range []struct{ args, want string }{
		{"run", "name a scenario"},
		{"run no-lock nonsense", `unknown scenario "nonsense"; there are no-lock, `},
		{"run no-lock --strategy redlok", "redlok is no case of these scenarios"},
		{"run no-lock --repeat 0", "--repeat: must be from 1 to 1000"},
		{"run no-lock --lang fr", "--lang: must be en or zh"},
		{"list --lang fr", "--lang: must be en or zh"},
	} {
		_, _, err := run(t.Context(), append([]string{"lab"}, strings.Fields(row.args)...)...)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("stock lab %s: %v, want %q", row.args, err, row.want)
		}
	}
}

// One scenario from the command line: what it says, what it writes, and its exit status.
func TestLabRun(t *testing.T) {
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lab.json")
	page := filepath.Join(t.TempDir(), "lab.html")
	cmd := exec.CommandContext(t.Context(), path, "lab", "run", "local-mutex", "--json", file, "--html", page, "-v")
	var exit *exec.ExitError
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	for _, want := range []string{
		"A mutex in the process, and a second process", "fix: A lock that all instances share.",
		"2 instances: oversells, as predicted (from its promise, scope: process)", "1 in stock, 2 sold, 0 left: oversold by 1", "paused",
		"2 cells in ", ": 2 as predicted, 0 not, 0 skipped.",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || strings.Count(string(text), `class="m-offence"`) < 2 {
		t.Errorf("the page does not show the pair of writes that met: %v", err)
	}
	if text, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	var report lab.Report
	if err := json.Unmarshal(text, &report); err != nil || len(report.Cells) != 2 || report.Version != lab.ReportVersion {
		t.Errorf("%v: %s", err, text)
	}
}

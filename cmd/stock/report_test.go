package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// histories writes those of two strategies against a stand-in, and returns their folder.
func histories(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	status, _, err := load(
		t.Context(), "--url", standIn(t, "", nil), "-s", "right,none", "-n", "30", "--stock", "40", "--history",
		filepath.Join(folder, "run.jsonl"),
	)
	if status != 0 {
		t.Fatal(err)
	}
	return folder
}

func content(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// report shows the files of load as load did, and in every form at once.
func TestReportShowsAHistory(t *testing.T) {
	t.Parallel()
	dir := histories(t)
	one, two := filepath.Join(dir, "run.right.jsonl"), filepath.Join(dir, "run.none.jsonl")
	out, _, err := run(t.Context(), "report", one)
	if err != nil || !strings.Contains(out, "HOLDS: 40 = 10 remaining + 30 sold") {
		t.Errorf("%v\n%s", err, out)
	}
	out, told, err := run(
		t.Context(), "report", one, two, "--html", filepath.Join(dir, "page.html"), "--json",
		filepath.Join(dir, "runs.json"),
	)
	if err != nil || !strings.Contains(out, "right") ||
		!strings.Contains(out, "As expected, since no exclusion is promised") {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Count(told, "wrote ") != 1 {
		t.Errorf("told %s", told)
	}
	for file, word := range map[string]string{
		"page.html": "2 runs side by side", "runs.json": `"version": 3`,
	} {
		if !strings.Contains(content(t, dir, file), word) {
			t.Errorf("%s: no %q", file, word)
		}
	}
}

// A history that is not complete is judged as far as it goes, with a note. A file that is no history is refused, with
// its name and the line.
func TestReportOfBadHistories(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(content(t, histories(t), "run.none.jsonl"), "\n")
	cut := file(t, "cut.jsonl", strings.Join(lines[:11], "")+lines[11][:50])
	page := filepath.Join(t.TempDir(), "page.html")
	out, told, err := run(t.Context(), "report", cut, "--html", page)
	if err != nil || !strings.Contains(told, "line 12: the last line is cut off after 50 bytes") ||
		!strings.Contains(out, "verdict") || !strings.Contains(content(t, page), `class="notice"`) {
		t.Errorf("%v\n%s%s", err, told, out)
	}
	killed := file(t, "killed.jsonl", strings.Join(lines[:11], ""))
	_, told, err = run(t.Context(), "report", killed)
	if err != nil || !strings.Contains(told, "what is there is judged, 10 requests") {
		t.Errorf("%v\n%s", err, told)
	}
	_, _, err = run(t.Context(), "report", file(t, "bad.jsonl", lines[0]+"{\n"+lines[1]))
	says(t, err, "bad.jsonl: line 2: ")
}

func TestReportRefuses(t *testing.T) {
	t.Parallel()
	dir := histories(t)
	good := filepath.Join(dir, "run.none.jsonl")
	for _, row := range []struct{ args, says string }{
		{"", "give a history"},
		{"/nowhere.jsonl", "/nowhere.jsonl: no such file"},
		{dir, "is a directory"},
		{good + " --html /nowhere/at/all.html", "--html: "},
		{good + " --html " + dir, "--html: " + dir + " is a folder: give a file"},
	} {
		_, _, err := run(t.Context(), append([]string{"report"}, strings.Fields(row.args)...)...)
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.args, err, row.says)
		}
	}
	before := content(t, good)
	if _, _, err := run(t.Context(), "report", good, "--html", good+"/x"); err == nil || content(t, good) != before {
		t.Errorf("%v: the history changed", err)
	}
}

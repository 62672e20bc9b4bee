package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// histories returns those of two strategies against a stand-in, twice each.
func histories(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	url := standIn(t, "", nil)
	for _, side := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(folder, side), 0o755); err != nil {
			t.Fatal(err)
		}
		status, _, err := load(
			t.Context(), "--url", url, "-s", "right,none", "-n", "30", "--stock", "40", "--history",
			filepath.Join(folder, side, "run.jsonl"),
		)
		if status != 0 {
			t.Fatal(err)
		}
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
	one, two := filepath.Join(dir, "a", "run.right.jsonl"), filepath.Join(dir, "a", "run.none.jsonl")
	out, _, err := run(t.Context(), "report", one)
	if err != nil || !strings.Contains(out, "HOLDS: 40 = 10 remaining + 30 sold") {
		t.Errorf("%v\n%s", err, out)
	}
	out, told, err := run(
		t.Context(), "report", one, two, "--html", filepath.Join(dir, "page.html"), "--json",
		filepath.Join(dir, "runs.json"), "--svg", filepath.Join(dir, "svg"),
	)
	if err != nil || !strings.Contains(out, "right") ||
		!strings.Contains(out, "As expected, since no exclusion is promised") {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Count(told, "wrote ") != 2 {
		t.Errorf("told %s", told)
	}
	for file, word := range map[string]string{
		"page.html": "2 runs side by side", "runs.json": `"version": 2`,
		"svg/01-right-stock.svg": "<svg", "svg/comparison.svg": "<svg",
	} {
		if !strings.Contains(content(t, dir, file), word) {
			t.Errorf("%s: no %q", file, word)
		}
	}
	if _, _, err := run(
		t.Context(), "report", one, "--porcupine-html", filepath.Join(dir, "search.html"),
	); err != nil ||
		!strings.Contains(content(t, dir, "search.html"), "final stock") {
		t.Errorf("porcupine: %v", err)
	}
	if out, _, err := run(t.Context(), "report", "--schema"); err != nil || !strings.Contains(out, "json-schema.org") {
		t.Errorf("schema: %v %s", err, out)
	}
}

// load writes the same files directly.
func TestLoadWritesReports(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	status, _, err := load(
		t.Context(), "--url", standIn(t, "", nil), "-s", "none", "-n", "30", "--html", page,
	)
	if status != 0 || !strings.Contains(content(t, page), "Broken, as expected") {
		t.Errorf("status %d, %v", status, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: files left over", entries, err)
	}
}

// A history that is not complete is judged as far as it goes, with a note. A file that is no history is refused, with
// its name and the line.
func TestReportOfBadHistories(t *testing.T) {
	t.Parallel()
	dir := histories(t)
	whole := content(t, dir, "a", "run.none.jsonl")
	lines := strings.SplitAfter(whole, "\n")
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "bad.jsonl")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, row := range []struct{ name, text, told string }{
		{
			"cut off in a line", strings.Join(lines[:11], "") + lines[11][:50],
			"line 12: the last line is cut off after 50 bytes",
		},
		{
			"cut off between lines", strings.Join(lines[:11], ""),
			"the run was killed, or still goes on: what is there is judged, 10 requests",
		},
		{"the start only", lines[0], "0 requests"},
	} {
		page := filepath.Join(t.TempDir(), "page.html")
		args := []string{"report", file(row.text), "--html", page}
		if row.name == "the start only" {
			args = append(args, "--svg", filepath.Join(filepath.Dir(page), "pictures"))
		}
		out, told, err := run(t.Context(), args...)
		if err != nil || !strings.Contains(told, row.told) || !strings.Contains(out, "verdict") ||
			!strings.Contains(content(t, page), `class="notice"`) {
			t.Errorf("%s: %v\n%s%s", row.name, err, told, out)
		}
	}
	for _, row := range []struct{ name, text, says string }{
		{"empty", "", "bad.jsonl: line 1: the history is empty"},
		{
			"a report", `{"format":"stock-load-report","version":2,"runs":[]}` + "\n",
			`bad.jsonl: line 1: a history begins with`,
		},
		{"a picture", "\x89PNG\r\n\x1a\n\x00\x00", "bad.jsonl: line 1: a history begins with"},
		{
			"of another version", strings.Replace(whole, `"version":2`, `"version":1`, 1),
			"this is version 1 of the format, and only version 2 can be read here",
		},
		{
			"spoilt in the middle", strings.Join(lines[:5], "") + "{\n" + strings.Join(lines[5:], ""),
			"bad.jsonl: line 6: ",
		},
	} {
		_, _, err := run(t.Context(), "report", file(row.text))
		if err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.name, err, row.says)
		}
	}
}

func TestReportRefuses(t *testing.T) {
	t.Parallel()
	dir := histories(t)
	good := filepath.Join(dir, "a", "run.none.jsonl")
	for _, row := range []struct{ args, says string }{
		{"", "give a history"},
		{"/nowhere.jsonl", "/nowhere.jsonl: no such file"},
		{dir, "is a directory"},
		{good + " --html /nowhere/at/all.html", "--html: "},
		{good + " --html " + dir, "--html: " + dir + " is a folder: give a file"},
		{good + " --svg " + good, "--svg: " + good + " is a file: give a folder"},
		{
			good + " " + good + " --porcupine-html " + dir + "/x.html",
			"--porcupine-html: is about a single run, not about 2",
		},
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

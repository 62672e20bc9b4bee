package starter

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	stock "example.com/stock"
)

// A fault of the manifest is an error, and not a service in which something is missing.
func TestFaultsOfTheManifest(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- takes: [LICENSE]":             "takes",
		"- when: [mysql]\n  take: [a]":   "there is no choice mysql",
		"- when: [mysql-store, nothing]": "there is no choice nothing",
	} {
		if _, err := manifest([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for _, patterns := range [][]string{{"lock/nothing.go"}, {"lock/*.go", "!lock/nothing.go"}} {
		if names, err := taken(patterns); err == nil {
			t.Errorf("%v: %v", patterns, names)
		}
	}
	names, err := taken([]string{"lock/*.go", "!lock/handover.go", "LICENSE"})
	if err != nil || !slices.Contains(names, "lock/do.go") || slices.Contains(names, "lock/handover.go") {
		t.Errorf("%v, %v", names, err)
	}
}

// After an error nothing is left of what was written, and what was there before is.
func TestWhatCouldNotBeWrittenLeavesNothing(t *testing.T) {
	t.Parallel()
	impossible := map[string][]byte{"a": nil, "a/b": nil, "c/d": nil}
	fresh := filepath.Join(t.TempDir(), "new")
	if err := write(fresh, impossible); err == nil {
		t.Error("a file is a folder")
	}
	if _, err := os.Stat(fresh); err == nil {
		t.Error("the folder is left")
	}
	there := t.TempDir()
	if err := write(there, impossible); err == nil {
		t.Error("a file is a folder")
	}
	if list, err := os.ReadDir(there); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// An edit that no longer fits its file is an error, also if this choice does not need it.
func TestAnEditMustFit(t *testing.T) {
	t.Parallel()
	var c Choice
	for _, when := range [][]string{nil, {"lock"}} {
		if _, err := c.edited("a.md", []byte("text"), []edit{{When: when, Was: "gone"}}); err == nil {
			t.Errorf("%v: an edit of what is not there was made", when)
		}
	}
}

// Every file with edits is one that can be taken.
func TestEveryEditHasAFile(t *testing.T) {
	t.Parallel()
	all, err := edits()
	if err != nil || len(all) < 30 {
		t.Fatal(len(all), err)
	}
	for name := range all {
		if _, err := stock.Source.ReadFile(name); err != nil {
			t.Error(err)
		}
	}
}

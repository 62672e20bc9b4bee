// Package docs_test keeps what is written here true.
package docs_test

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"example.com/stock/internal/stack/stacktest"
)

var typed = flag.Bool("type-lessons", false,
	"TestLessonsAsTyped gives every command of the lessons to the program: minutes")

// A command in a lesson: at a prompt, with lines of its output below it; a line of a block; or in a sentence.
var commands = regexp.MustCompile("(?m)^\\$ (bin/stock [^\n]+)\n([^`]*)|^(bin/stock [^\n]+)$|`(bin/stock [^`]+)`")

// Every command of every lesson prints what the lesson shows of it: make lessons. For one lesson, add
// -run TestLessonsAsTyped/05-fencing.md
func TestLessonsAsTyped(t *testing.T) {
	if !*typed {
		t.Skip("minutes: make lessons")
	}
	var program stacktest.Program
	path := program.Path(t)
	if err := os.MkdirAll("../out", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range pages(t, "docs/lessons/*.md") {
		for _, m := range commands.FindAllStringSubmatch(document(t, file), -1) {
			command, shown := m[1]+m[3]+m[4], m[2]
			t.Run(filepath.Base(file)+"/"+command, func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath("python3"); err != nil && strings.Contains(command, " python3 ") {
					t.Skip(err) // also with REQUIRE_BACKENDS=1: no test of the service needs it
				}
				output := typeIn(t, path, command)
				if missing := firstMissing(shown, output); missing != "" {
					t.Errorf("it does not print %q, or not in this place:\n%s", missing, output)
				}
			})
		}
	}
}

// typeIn runs a command in the root of the repository. The grader ends with status 1 if it finds a lock broken.
func typeIn(t *testing.T, path, command string) string {
	t.Helper()
	args := strings.Fields(command)[1:]
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir, cmd.Env = "..", append(os.Environ(), "REQUIRE_BACKENDS=1", "STOCK_LANG=en")
	output, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	foundBroken := errors.As(err, &exit) && exit.ExitCode() == 1 && args[1] == "grade"
	if err != nil && !foundBroken {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

// differs matches what is not the same in two runs: the numbers of instances and keys, and times.
var differs = regexp.MustCompile(`([a-z])-\d+|\b\d+(?:m\d+)?(?:\.\d+)?m?s\b`)

// firstMissing returns the first shown line that the output does not have, or not after those before it. "…" ends a
// line that goes on in the output.
func firstMissing(shown, output string) string {
	lines := strings.Split(differs.ReplaceAllString(output, "$1"), "\n")
	for line := range strings.Lines(differs.ReplaceAllString(shown, "$1")) {
		want, cut := strings.CutSuffix(strings.TrimSpace(line), "…")
		want = strings.TrimSpace(want)
		if want == "" {
			continue
		}
		at := slices.IndexFunc(lines, func(got string) bool {
			got = strings.TrimSpace(got)
			return got == want || cut && strings.HasPrefix(got, want)
		})
		if at < 0 {
			return want
		}
		lines = lines[at+1:]
	}
	return ""
}

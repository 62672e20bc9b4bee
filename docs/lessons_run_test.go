package docs_test

import (
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

// A command in a lesson: at the prompt of an output, or in a sentence.
var commands = regexp.MustCompile("(?m)^\\$ (bin/stock [^\n]+)$|`(bin/stock [^`]+)`")

// atPrompt is where the outputs that a lesson shows of its commands are, by command.
func atPrompt(t *testing.T, files []string) map[string][]excerpt {
	t.Helper()
	all := make(map[string][]excerpt)
	for _, file := range files {
		for _, m := range excerpts.FindAllStringSubmatch(read(t, file), -1) {
			e, err := parse(m[1])
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			all[e.command] = append(all[e.command], e)
		}
	}
	return all
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every command of a lesson does what the lesson says: make lessons. A command that is in both languages is run once,
// in English, which takes half the time. TestLessons checks that the Chinese texts exist.
func TestLessonsAsTyped(t *testing.T) {
	if !*typed {
		t.Skip("minutes: make lessons")
	}
	var program stacktest.Program
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	files := lessons(t)
	shown, words := atPrompt(t, files), words(t)
	var given []string
	for _, file := range files {
		for _, m := range commands.FindAllStringSubmatch(read(t, file), -1) {
			command := strings.ReplaceAll(m[1]+m[2], " --lang zh", "")
			if slices.Contains(given, command) {
				continue
			}
			given = append(given, command)
			t.Run(command, func(t *testing.T) {
				t.Parallel()
				folder := t.TempDir()
				if err := os.Mkdir(filepath.Join(folder, "out"), 0o755); err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), path, strings.Fields(command)[1:]...)
				cmd.Dir, cmd.Env = folder, append(os.Environ(), "REQUIRE_BACKENDS=1")
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				for _, e := range shown[command] {
					for _, s := range e.scenarios {
						e.check(t, file, "$ "+e.command+"\n"+string(out), s, words)
					}
				}
			})
		}
	}
	if len(given) < 30 {
		t.Errorf("the lessons have %d commands", len(given))
	}
}

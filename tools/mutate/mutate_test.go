package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// theModule is a small module: a package with a table, a file that it embeds, and a package whose test uses it.
var theModule = map[string]string{
	"go.mod": "module example.com/m\n\ngo 1.26\n",
	"sum/sum.go": `package sum

import _ "embed"

//go:embed greeting.txt
var greeting string

func Add(a, b int) int {
	if a < 0 {
		panic("negative")
	}
	return a + b
}

func Greet() string { return greeting }

func Wait(c chan int) int {
	return <-c
}

const factor = 2

func Twice(a int) int {
	return factor * a
}
`,
	"sum/greeting.txt": "good\n\n\tmorning\n",
	"sum/sum_test.go": `package sum

import "testing"

func TestAdd(t *testing.T) {
	t.Run("two numbers", func(t *testing.T) {
		if Add(1, 2) != 3 {
			t.Error("1 + 2")
		}
	})
}

func TestGreet(t *testing.T) {
	if Greet() != "good\n\n\tmorning\n" {
		t.Error(Greet())
	}
}

func TestWait(t *testing.T) {
	c := make(chan int, 1)
	c <- 1
	Wait(c)
}

func TestRed(t *testing.T) { t.Error("always") }

func TestSkipped(t *testing.T) { t.Skip("no server") }
`,
	"user/user.go": `package user

import "example.com/m/sum"

func Three() int { return sum.Add(1, 2) }

func Six() int { return sum.Twice(3) }
`,
	"user/user_test.go": `package user

import "testing"

func TestThree(t *testing.T) {
	if Three() != 3 {
		t.Error(Three())
	}
}

func TestSix(t *testing.T) {
	if Six() != 6 {
		t.Error(Six())
	}
}
`,
}

// write makes a module of files, with a table in sum.
func write(t *testing.T, table string) (root string) {
	t.Helper()
	root = t.TempDir()
	writeFiles(t, root, theModule)
	if err := os.WriteFile(filepath.Join(root, "sum", tableName), []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	return root
}

func writeFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// mutate runs the command, and returns what it said.
func mutate(t *testing.T, root string, args ...string) (said string, err error) {
	t.Helper()
	o, err := parse(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	o.root, o.state = root, filepath.Join(root, "out", "mutate.json")
	var b bytes.Buffer
	err = run(context.WithoutCancel(t.Context()), o, &b, &b)
	t.Log(b.String(), err)
	return b.String(), err
}

func TestEachVerdict(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	root := write(t, `# less
file sum.go
test TestAdd/two numbers
-return a + b
+return a - b

# in another package
file sum.go
test TestThree
in ./user
-return a + b
+return a + a

# of what Go embeds
file greeting.txt
test TestGreet
-good morning
+bad morning

# it panics
file sum.go
test TestAdd
-a < 0
+a > 0

# it hangs
file sum.go
test TestWait
-return <-c
+<-c; return <-c

# nothing
file sum.go
same it is the same
-a < 0
+0 > a

# nobody looks
file sum.go
open negative numbers are not tested
-a < 0
+a < -1

# it lives
file sum.go
test TestGreet
-a < 0
+a < -1

# no such code
file sum.go
test TestAdd
-a << 0

# twice
file sum.go
test TestAdd
-string

# no Go
file sum.go
test TestAdd
-return a + b
+return a +

# no such test
file sum.go
test TestSubtract
-a + b
+a - b

# no such subtest
file sum.go
test TestAdd/three numbers
-a + b
+a - b

# red anyway
file sum.go
test TestRed
-a + b
+a - b

# skipped
file sum.go
test TestSkipped
-a + b
+a - b
`)
	said, err := mutate(t, root, "--limit", "3s", "--report", filepath.Join(root, "report.md"))
	if err == nil || !strings.Contains(err.Error(), "8 of 15") {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "report.md")); err == nil {
		t.Error("a report although mutants survive")
	}
	for _, want := range []string{
		"killed   sum/sum.go: less (red: TestAdd",
		"killed   sum/sum.go: in another package (red: TestThree)",
		"killed   sum/greeting.txt: of what Go embeds (red: TestGreet)",
		"killed   sum/sum.go: it panics (panic: TestAdd",
		"killed   sum/sum.go: it hangs (hang: TestWait)",
		"same     sum/sum.go: nothing\n",
		"open     sum/sum.go: nobody looks\n",
		"SURVIVED sum/sum.go: it lives (TestGreet is green)",
		"WRONG    sum/sum.go: no such code (the code is there 0 times",
		"WRONG    sum/sum.go: twice (the code is there 2 times",
		"WRONG    sum/sum.go: no Go (it does not compile)",
		"WRONG    sum/sum.go: no such test (no test TestSubtract)",
		"WRONG    sum/sum.go: no such subtest (no test has run: TestAdd/three numbers)",
		"WRONG    sum/sum.go: red anyway (the test is not green without the mutant: red)",
		"SKIPPED  sum/sum.go: skipped (the test was skipped)",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it did not say %q", want)
		}
	}
}

const oneMutant = `# less
file sum.go
test TestAdd
-return a + b
+return a - b
`

// A result is believed until a file of which the test is built changes.
func TestResume(t *testing.T) {
	root := write(t, oneMutant)
	if _, err := mutate(t, root); err != nil {
		t.Fatal(err)
	}
	state, err := os.ReadFile(filepath.Join(root, "out/mutate.json"))
	if err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(root, "report.md")
	// A test that is no longer there would be noticed if the mutant were tried.
	forged := strings.Replace(string(state), `"by": "TestAdd`, `"by": "TestOfOld`, 1)
	if err := os.WriteFile(filepath.Join(root, "out/other.json"), []byte(forged), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := mutate(t, root, "--resume", "--with", filepath.Join(root, "out/other.json"), "--report", page)
	if err != nil || !strings.Contains(said, "TestOfOld") {
		t.Errorf("the result was not believed: %v", err)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| sum.go | less | `TestAdd` |") {
		t.Errorf("the report: %v\n%s", err, text)
	}
	file := filepath.Join(root, "sum/sum_test.go")
	if err := os.WriteFile(file, []byte(theModule["sum/sum_test.go"]+"\n// changed\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if said, err := mutate(t, root, "--resume"); err != nil || strings.Contains(said, "TestOfOld") {
		t.Errorf("the result of another test was believed: %v", err)
	}
}

// Operators make mutants of Go that no table has. What a table lists as the same is counted as that, and the tests of
// another package are tried, too.
func TestOperators(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	root := write(t, `# nothing negative is added
file sum.go
same nobody adds 0
-a < 0
+a <= 0
`)
	said, err := mutate(t, root, "--operators", "--package", "sum,user", "--least", "90")
	if err == nil || !strings.Contains(err.Error(), "less than 90 %") {
		t.Errorf("err = %v", err)
	}
	for _, want := range []string{
		"same     sum/sum.go: 9: if a < 0 {  =>  if a <= 0 { (nobody adds 0)",
		"killed   sum/sum.go: 9: if a < 0 {  =>  if a >= 0 { (panic: TestAdd",
		"SURVIVED sum/sum.go: 9: if a < 0 {  =>  if a < 1 { (2 tests that reach sum.Add are green)",
		"killed   sum/sum.go: 9: if a < 0 {  =>  if (a < 0) || true { (panic: TestAdd",
		"SURVIVED sum/sum.go: 9: if a < 0 {  =>  if (a < 0) && false { (",
		"killed   sum/sum.go: 12: return a + b  =>  return a - b (red: TestAdd",
		"killed   sum/sum.go: 12: return a + b  =>  return 0 (red: TestAdd",
		`killed   sum/sum.go: 15: func Greet() string { return greeting }  =>  func Greet() string { return "" } (`,
		"SURVIVED sum/sum.go: 18: return <-c  =>  return 0 (1",
		"killed   sum/sum.go: 24: return factor * a  =>  return factor / a (red: TestSix)",
		"killed   sum/sum.go: 21: const factor = 2  =>  const factor = 3 (red: TestSix)",
		"-	if a < 0 {\n+	if a < 1 {\n  2 tests that reach sum.Add are green\n",
		" 1 change nothing, 3 survived",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("it did not say %q", want)
		}
	}
	// What has survived is tried again, with tests that were written since.
	file := filepath.Join(root, "sum/sum_test.go")
	more := theModule["sum/sum_test.go"] + `
func TestBounds(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("-1 was added")
		}
	}()
	Add(-1, 1)
}

func TestZero(t *testing.T) { Add(0, 1) }
`
	if err := os.WriteFile(file, []byte(more), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := mutate(
		t, root, "--operators", "--package", "sum", "--resume", "--only", "sum.go:9:", "--least", "100",
	)
	if err != nil || !strings.Contains(again, "4 killed, 1 change nothing, 0 survived") {
		t.Errorf("%v: it said %s", err, again)
	}
}

// No mutant changes a time by a little, because no test asserts a time.
func TestDurationsStay(t *testing.T) {
	root := write(t, "")
	const text = `package sum

import "time"

const limit = 2*time.Minute + 10*time.Second

func Slow(took, lease time.Duration, n int) bool {
	return took > lease/6 && took > 0 && n > 0
}
`
	if err := os.WriteFile(filepath.Join(root, "sum/slow.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := mutate(t, root, "--operators", "--package", "sum", "--list")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(said) {
		if _, change, is := strings.Cut(line, "=>  return "); is && strings.Contains(line, "slow.go") {
			got = append(got, strings.TrimSpace(change))
		} else if strings.Contains(line, "limit") {
			t.Errorf("it has %s", line)
		}
	}
	want := []string{
		"took <= lease/6 && took > 0 && n > 0", // not >=
		"took > lease*6 && took > 0 && n > 0",
		"took > lease/6 || took > 0 && n > 0",
		"took > lease/6 && took >= 0 && n > 0",
		"took > lease/6 && took <= 0 && n > 0",
		"took > lease/6 && took > 0 || n > 0",
		"took > lease/6 && took > 0 && n >= 0",
		"took > lease/6 && took > 0 && n <= 0",
		"took > lease/6 && took > 0 && n > 1",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it has %q, want %q", got, want)
	}
}

// No mutant changes a statement that only logs, or when it does.
func TestLogLinesStay(t *testing.T) {
	root := write(t, "")
	const text = `package sum

import "log/slog"

func Told(log *slog.Logger, n int) {
	log.Info("told", "twice", 2*n)
	if n > 7 {
		log.Warn("many")
	}
	if n > 5 {
		log.Debug("some")
		Add(1, 2)
	} else if n > 3 {
		log.Debug("few")
	}
}
`
	if err := os.WriteFile(filepath.Join(root, "sum/told.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	said, err := mutate(t, root, "--operators", "--package", "sum", "--list")
	if err != nil {
		t.Fatal(err)
	}
	for _, stays := range []string{"log.", "n > 7", "n > 3"} {
		if strings.Contains(said, ": "+stays) || strings.Contains(said, "if "+stays) {
			t.Errorf("it changes %s:\n%s", stays, said)
		}
	}
	for _, changes := range []string{"told.go:10: if n > 5 {  =>  if n >= 5 {", "told.go:12: Add(1, 2)"} {
		if !strings.Contains(said, changes) {
			t.Errorf("it does not have %s:\n%s", changes, said)
		}
	}
}

// A seed makes a sample, the same one each time, and the report says what became of it.
func TestRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	root := write(t, oneMutant)
	var lists []string
	for _, seed := range []string{"1", "1", "2"} {
		list, err := mutate(t, root, "--random", "5", "--seed", seed, "--package", "sum,user", "--list")
		if err != nil || strings.Count(list, "\n") != 5 {
			t.Fatal(list, err)
		}
		lists = append(lists, list)
	}
	if lists[0] != lists[1] || lists[0] == lists[2] {
		t.Errorf("samples %q", lists)
	}
	page := filepath.Join(root, "report.md")
	said, err := mutate(t, root, "--random", "5", "--seed", "1", "--package", "sum,user", "--report", page)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mutate(t, root, "--report", page); err != nil { // of the table: it keeps the sample
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "| 1 | 5 |") || !strings.Contains(string(text), "`TestAdd`") {
		t.Errorf("%v: it said %s, and the page %s", err, said, text)
	}
	if _, err := mutate(t, root, "--random", "5", "--package", "sum,user", "--budget", "1ns"); err == nil {
		t.Error("nothing was tried, and that is no error")
	}
	both := []string{"--operators", "--package", "a", "--random", "1"}
	for _, bad := range [][]string{{"--random", "-1"}, {"--operators"}, both} {
		if _, err := parse(bad, t.Output()); err == nil {
			t.Errorf("%v is accepted", bad)
		}
	}
}

// A test that -short skips kills with --long, also if an earlier run without it has measured what the tests reach.
func TestLongTestsKill(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	root := write(t, "")
	writeFiles(t, root, map[string]string{
		"slow/slow.go": "package slow\n\ntype atomic int\n\nfunc Four() int { return 4 }\n",
		"slow/slow_test.go": `package slow

import "testing"

func TestFour(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make verify")
	}
	if Four() != 4 {
		t.Error(Four())
	}
}
`,
	})
	for _, c := range []struct{ flag, want string }{{"--long=false", "0 killed"}, {"--long", "3 killed"}} {
		if said, err := mutate(t, root, "--operators", "--package", "slow", c.flag); !strings.Contains(said, c.want) {
			t.Errorf("%s: %s, %v; want %s", c.flag, said, err, c.want)
		}
	}
}

func TestShards(t *testing.T) {
	var table strings.Builder
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		table.WriteString(strings.Replace(oneMutant, "less", name, 1) + "\n")
	}
	root := write(t, table.String())
	seen := ""
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		said, err := mutate(t, root, "--list", "--shard", part)
		if err != nil {
			t.Fatal(err)
		}
		seen += said
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if strings.Count(seen, ": "+name+" ") != 1 {
			t.Errorf("%s is not in one shard: %s", name, seen)
		}
	}
	for _, bad := range []string{"0/3", "4/3", "3", "a/b"} {
		if _, err := parse([]string{"--shard", bad}, t.Output()); err == nil {
			t.Errorf("--shard %s is accepted", bad)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A workshop makes mutants and tries them.
type workshop struct {
	options
	tree     *tree
	state    *state
	dir      string // for programs and overlays
	baseline *baseline

	mu       sync.Mutex
	progress io.Writer
	begun    time.Time
	done     int
}

func newWorkshop(o options, t *tree, s *state, progress io.Writer) *workshop {
	return &workshop{options: o, tree: t, state: s, progress: progress, begun: time.Now()}
}

// tryAll returns the results in the order of the mutants. When ctx ends, it ends, too, and what was tried is kept.
func (w *workshop) tryAll(ctx context.Context, mutants []*Mutant) (results []Result, err error) {
	if w.dir, err = os.MkdirTemp("", "mutate"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(w.dir)
	w.baseline = newBaseline(w)
	results = make([]Result, len(mutants))
	whole := ctx
	ctx, stop := context.WithCancelCause(whole)
	defer stop(nil)
	work := make(chan int)
	var workers sync.WaitGroup
	for range w.workers {
		workers.Go(func() {
			for i := range work {
				r, err := w.one(ctx, mutants[i])
				if err != nil {
					stop(err) // the first one counts
					continue
				}
				results[i] = r
				w.tell(len(mutants), r)
			}
		})
	}
	for i := range mutants {
		if ctx.Err() != nil {
			break
		}
		work <- i
	}
	close(work)
	workers.Wait()
	if whole.Err() != nil {
		return nil, fmt.Errorf("ended after %d of %d mutants; --resume goes on from here", w.done, len(mutants))
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	w.sum(results)
	return results, nil
}

// tell says what became of one mutant.
func (w *workshop) tell(of int, r Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done++
	fmt.Fprintf(w.progress, "%4.0fs %*d/%d %-8s %s: %s", time.Since(w.begun).Seconds(), len(fmt.Sprint(of)), w.done, of,
		r.Verdict, r.File, r.Name)
	switch {
	case r.By != "":
		fmt.Fprintf(w.progress, " (%s: %s)", r.How, r.By)
	case r.How != "":
		fmt.Fprintf(w.progress, " (%s)", r.How)
	}
	fmt.Fprintln(w.progress)
	if !r.Verdict.good() && r.Output != "" {
		fmt.Fprintln(w.progress, "\t"+strings.ReplaceAll(strings.TrimSpace(r.Output), "\n", "\n\t"))
	}
}

// sum says what became of all.
func (w *workshop) sum(results []Result) {
	count := make(map[Verdict]int)
	for _, r := range results {
		count[r.Verdict]++
	}
	var parts []string
	for _, v := range []Verdict{killed, same, open, survived, skipped, wrong} {
		if count[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[v], v))
		}
	}
	fmt.Fprintf(w.progress, "%d mutants: %s\n", len(results), strings.Join(parts, ", "))
	for _, r := range results {
		if !r.Verdict.good() {
			fmt.Fprintf(w.progress, "%s %s: %s\n", r.Verdict, r.File, r.Name)
		}
	}
}

// one tries one mutant, unless its result is known. The error is of the machinery, or the end of ctx.
func (w *workshop) one(ctx context.Context, m *Mutant) (Result, error) {
	key := w.tree.key(m)
	if r, known := w.state.known(key); w.resume && known && r.Verdict.good() {
		return r, nil
	}
	r := Result{Key: key, File: m.path(), Name: m.Name}
	if err := w.try(ctx, m, &r); err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, ctx.Err() // what was seen may be the end of ctx
	}
	if err := w.tree.unchanged(m.testPackage()); err != nil {
		return r, err
	}
	return r, w.state.keep(r)
}

// try makes the mutant, and fills in what became of it.
func (w *workshop) try(ctx context.Context, m *Mutant, r *Result) error {
	text, err := os.ReadFile(filepath.Join(w.root, filepath.FromSlash(m.path())))
	if err != nil {
		r.Verdict, r.How = wrong, err.Error()
		return nil
	}
	mutated, err := m.apply(string(text))
	if err != nil {
		r.Verdict, r.How = wrong, err.Error()
		return nil
	}
	limit := w.limit
	if m.Test != "" {
		if err := namesTests(m.Test, w.tree.tested[m.testPackage()].tests); err != nil {
			r.Verdict, r.How = wrong, err.Error()
			return nil
		}
		green, err := w.baseline.green(ctx, m)
		if err != nil {
			return err
		}
		if green.verdict != "" {
			r.Verdict, r.How, r.Output = green.verdict, green.why, green.output
			return nil
		}
		limit = min(limit, 20*time.Second+5*green.took)
	}
	program, remove, err := w.build(ctx, m.testPackage(), m.Race, m.path(), mutated)
	if err != nil {
		var failed *buildError
		if errors.As(err, &failed) {
			r.Verdict, r.How, r.Output = wrong, "it does not compile", failed.output
			return nil
		}
		return err
	}
	defer remove()
	switch {
	case m.Same != "":
		r.Verdict = same
		return nil
	case m.Open != "":
		r.Verdict = open
		return nil
	}
	saw, err := w.runTest(ctx, testRun{program: program, dir: m.testPackage(), pattern: m.Test, limit: limit})
	if err != nil {
		return err
	}
	r.Seconds = saw.took.Seconds()
	if skips(m.Test, saw.output) {
		r.Verdict, r.How = skipped, "the test was skipped"
		return nil
	}
	if saw.red == "" {
		r.Verdict, r.How = survived, m.Test+" is green"
		return nil
	}
	r.Verdict, r.How, r.By, r.Output = killed, saw.red, saw.by, tail(saw.output, 400)
	return nil
}

// A buildError is a program that does not compile.
type buildError struct{ output string }

func (e *buildError) Error() string { return "it does not compile:\n" + e.output }

// build compiles the test of the package in dir, with text in the place of a file of the module; no file: as it is.
func (w *workshop) build(
	ctx context.Context, dir string, race bool, file, text string,
) (program string, remove func(), err error) {
	if file == "" {
		return w.compile(ctx, dir, race, "")
	}
	place, err := os.MkdirTemp(w.dir, "")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(place)
	overlay, err := writeOverlay(place, map[string]string{filepath.Join(w.root, filepath.FromSlash(file)): text})
	if err != nil {
		return "", nil, err
	}
	return w.compile(ctx, dir, race, overlay)
}

// writeOverlay writes, into the folder place, what go build -overlay needs to read texts in the place of files.
func writeOverlay(place string, texts map[string]string) (string, error) {
	replace := make(map[string]string)
	for file, text := range texts {
		replace[file] = filepath.Join(place, fmt.Sprintf("%x", sha256.Sum256([]byte(file)))[:24]+".go")
		if err := os.WriteFile(replace[file], []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	spec, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(place, "overlay.json")
	return overlay, os.WriteFile(overlay, spec, 0o644)
}

// compile compiles the test of the package in dir, without debug information: to link it takes half as long.
func (w *workshop) compile(
	ctx context.Context, dir string, race bool, overlay string,
) (program string, remove func(), err error) {
	place, err := os.MkdirTemp(w.dir, "")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(place) }
	program = filepath.Join(place, "t")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program}
	if race {
		args = append(args, "-race")
	}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+dir)...)
	cmd.Dir = w.root
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return program, remove, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, new(*exec.ExitError)):
		err = &buildError{string(out)}
	}
	remove()
	return "", nil, err
}

// seen is what a run of a test showed.
type seen struct {
	red    string // how it went red; empty: green
	by     string // the first test that failed
	took   time.Duration
	output string
}

var (
	failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	begunTest  = regexp.MustCompile(`(?m)^=== RUN   (\S+)`)
	skippedRun = regexp.MustCompile(`(?m)^\s*--- SKIP: (\S+)`)
)

// A testRun is tests of a program.
type testRun struct {
	program, dir, pattern string
	limit                 time.Duration
	short                 bool   // without the long ones
	env                   string // one variable more
}

// runTest runs one test of a program. Random tests get one seed, so that a result can be had again, and do not look
// for the shortest counterexample, nor write it down for the runs to come. The temporary files are the run's own, and
// are removed even if it is killed.
func (w *workshop) runTest(ctx context.Context, r testRun) (seen, error) {
	temp, err := os.MkdirTemp(w.dir, "")
	if err != nil {
		return seen{}, err
	}
	defer os.RemoveAll(temp)
	ctx, end := context.WithTimeout(ctx, r.limit+5*time.Second) // a test may hang so that its own limit does not end it
	defer end()
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, r.program, "-test.v", "-test.failfast", "-test.run="+anchored(r.pattern),
		"-test.timeout="+r.limit.String(), fmt.Sprintf("-test.short=%v", r.short))
	cmd.Dir = filepath.Join(w.root, filepath.FromSlash(r.dir))
	cmd.Env = append(os.Environ(), "TMPDIR="+temp, "RAPID_SEED=1", "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=1ms")
	if r.env != "" {
		cmd.Env = append(cmd.Env, r.env)
	}
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // for what holds the output open
	began := time.Now()
	err = cmd.Run()
	s := seen{took: time.Since(began), output: output.String()}
	if cmd.Process == nil {
		return s, err
	}
	if found := failedTest.FindStringSubmatch(s.output); found != nil {
		s.by = found[1]
	}
	switch {
	case err == nil:
		return s, nil
	case ctx.Err() != nil, strings.Contains(s.output, "panic: test timed out after"):
		s.red = "hang"
	case strings.Contains(s.output, "\npanic: ") || strings.Contains(s.output, "\nfatal error: "):
		s.red = "panic"
	default:
		s.red = "red"
	}
	if s.by == "" {
		if all := begunTest.FindAllStringSubmatch(s.output, -1); len(all) > 0 {
			s.by = all[len(all)-1][1]
		}
	}
	return s, nil
}

// skips reports whether one of the tests that the pattern names has skipped itself: a server is missing.
func skips(pattern, output string) bool {
	for _, skip := range skippedRun.FindAllStringSubmatch(output, -1) {
		for _, part := range alternatives(pattern) {
			named, err := regexp.MatchString("^(?:"+strings.ReplaceAll(part, " ", "_")+")$", skip[1])
			if named && err == nil {
				return true
			}
		}
	}
	return false
}

// tail returns the last n bytes of a text, at most.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return "…" + strings.ToValidUTF8(text[len(text)-n:], "")
}

// A baseline knows which tests are green without a mutant. Each test is run once in a run, and not at all if it is
// known from an earlier run of the same files.
type baseline struct {
	w *workshop

	mu    sync.Mutex
	tests map[string]*greenTest
	built map[string]*greenProgram
}

type greenTest struct {
	once    sync.Once
	verdict Verdict // what it makes of the mutant; empty: it is green
	why     string
	output  string
	took    time.Duration
	err     error
}

type greenProgram struct {
	once sync.Once
	path string
	err  error
}

func newBaseline(w *workshop) *baseline {
	return &baseline{w: w, tests: make(map[string]*greenTest), built: make(map[string]*greenProgram)}
}

// green runs the test of a mutant without the mutant.
func (b *baseline) green(ctx context.Context, m *Mutant) (*greenTest, error) {
	dir := m.testPackage()
	name := fmt.Sprintf("%s %v %s", dir, m.Race, m.Test)
	b.mu.Lock()
	t := b.tests[name]
	if t == nil {
		t = new(greenTest)
		b.tests[name] = t
	}
	b.mu.Unlock()
	t.once.Do(func() {
		key := fmt.Sprintf("%x", sha256.Sum256([]byte(name+b.w.tree.tested[dir].hash)))[:24]
		if seconds, known := b.w.state.green(key); known {
			t.took = time.Duration(seconds * float64(time.Second))
			return
		}
		if t.err = b.run(ctx, m, t); t.err == nil && t.verdict == "" {
			b.w.state.keepGreen(key, t.took.Seconds())
		}
	})
	return t, t.err
}

func (b *baseline) run(ctx context.Context, m *Mutant, t *greenTest) error {
	program, err := b.program(ctx, m.testPackage(), m.Race)
	if err != nil {
		return err
	}
	s, err := b.w.runTest(ctx, testRun{program: program, dir: m.testPackage(), pattern: m.Test, limit: b.w.limit})
	if err != nil {
		return err
	}
	t.took, t.output = s.took, tail(s.output, 2000)
	if s.red != "" {
		t.verdict, t.why = wrong, "the test is not green without the mutant: "+s.red
		return nil
	}
	if skips(m.Test, s.output) {
		t.verdict, t.why = skipped, "the test was skipped"
		return nil
	}
	ran := begunTest.FindAllStringSubmatch(s.output, -1)
	for _, part := range alternatives(m.Test) {
		expression, err := regexp.Compile("^(?:" + strings.ReplaceAll(part, " ", "_") + ")$")
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(ran, func(name []string) bool { return expression.MatchString(name[1]) }) {
			t.verdict, t.why = wrong, "no test has run: "+part
		}
	}
	return nil
}

// program builds the test of a package as it is.
func (b *baseline) program(ctx context.Context, dir string, race bool) (string, error) {
	name := fmt.Sprintf("%s %v", dir, race)
	b.mu.Lock()
	p := b.built[name]
	if p == nil {
		p = new(greenProgram)
		b.built[name] = p
	}
	b.mu.Unlock()
	p.once.Do(func() {
		if p.path, _, p.err = b.w.build(ctx, dir, race, "", ""); p.err != nil {
			p.err = fmt.Errorf("%s without a mutant: %w", dir, p.err)
		}
	})
	return p.path, p.err
}

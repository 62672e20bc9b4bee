// Mutate breaks the code on purpose, one small change at a time, and sees whether the test goes red that should.
//
// The changes are in tables, mutants.txt, beside the code: see [Mutant]. What comes out is docs/mutation.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const usage = `Mutate makes every mutant of the tables mutants.txt, and runs the test that is named beside it.
A test that goes red, panics or hangs has killed the mutant. Nothing is written into the tree: a mutant is compiled in
place of its file (go test -overlay).

  bin/mutate                                  every mutant of every table
  bin/mutate --package lock,lock/zklock       the tables of these packages
  bin/mutate --only 'deadline|fence'          the mutants whose names match
  bin/mutate --shard 2/5                      every fifth mutant, beginning with the second
  bin/mutate --resume                         only what has no result yet, or what has changed since
  bin/mutate --quick                          a fixed sample without servers: under 4 minutes on 2 cores
  bin/mutate --list                           the mutants, without making them
  bin/mutate --random 200 --seed 7            a sample of the mutants that operators make of the service
  bin/mutate --operators --package lock       all that they make of a package; --only 'turn.go:117' of a line
  bin/mutate --resume --report docs/mutation.md

A mutant that is marked "same" or "open" is compiled and not run. Results are kept in a file, by the hash of the mutant
and of every file of which its test is built. --resume believes those whose hash has not changed, so a run that was
interrupted goes on where it was. --with adds the results of other shards.

The status is 0 if every mutant with a test was killed. It is 1 if one survived, if its test was skipped (a server is
missing), or if a table is wrong: the code is not found exactly once, the mutant does not compile, the test does not
exist or is red without the mutant.

Operators make mutants of Go code: a comparison is shifted or negated, a condition is always true or always false, &&
and || change places, + and -, a number is one more or less, a call, an assignment, a defer is left out, a result is nil
or zero. All tests that reach the func are tried, fast ones first, those of the package before others, and those that
-short skips last, with --long; a test that fails must fail twice. A mutant whose code is that of a "same" in a table
counts as one that changes nothing. Which tests reach what is kept in out/reached.json. With --resume what has survived
is tried again. The status is 1 if less than --least percent is killed.

`

// options are what the command line says.
type options struct {
	root      string
	packages  []string
	only      *regexp.Regexp
	shard     shard
	quick     bool
	operators bool
	random    int
	seed      uint64
	budget    time.Duration
	patience  time.Duration
	long      bool
	least     float64
	list      bool
	resume    bool
	state     string
	with      []string
	json      string
	report    string
	workers   int
	limit     time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func parse(args []string, help io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	packages := flags.String("package", "", "`FOLDERS` of packages, with commas (default: all that have a table)")
	only := flags.String("only", "", "only mutants whose name matches this regular `EXPRESSION`")
	part := flags.String("shard", "", "the part `I/N` of the mutants, for N runs beside each other")
	with := flags.String("with", "", "result `FILES`, with commas, of other shards: their results are believed, too")
	flags.BoolVar(&o.quick, "quick", false, "a fixed sample of the mutants whose tests need no servers")
	flags.BoolVar(&o.operators, "operators", false, "make mutants by operators, of --package, not from tables")
	flags.IntVar(&o.random, "random", 0, "make `N` mutants by operators, of --package (default: of the service)")
	flags.Uint64Var(&o.seed, "seed", 1, "with --random: another seed is another sample")
	flags.DurationVar(&o.budget, "budget", 0, "with --random: no mutant is begun after that; 0 is no bound")
	flags.DurationVar(&o.patience, "patience", time.Minute,
		"with --random and --operators: the tests that a mutant gets take that long at most without it")
	flags.BoolVar(&o.long, "long", false, "with --random and --operators: also the tests that -short skips")
	flags.Float64Var(&o.least, "least", 0, "with --random: the status is 1 if less than that percentage is killed")
	flags.BoolVar(&o.list, "list", false, "print the mutants, and make none")
	flags.BoolVar(&o.resume, "resume", false, "believe earlier results whose mutant and files have not changed")
	flags.StringVar(&o.state, "state", "", "`FILE` in which results are kept (default: out/mutate.json in the module)")
	flags.StringVar(&o.json, "json", "", "write the results of this run to `FILE`; - is standard output")
	flags.StringVar(&o.report, "report", "", "write the report to `FILE`, if every mutant was tried and none survived")
	flags.IntVar(&o.workers, "workers", runtime.NumCPU(), "mutants at a time")
	flags.DurationVar(&o.limit, "limit", time.Minute,
		"the longest that a test may take; or, if that is less, 20 s and 5 times what it takes without the mutant")
	flags.Usage = func() {
		fmt.Fprint(help, usage)
		flags.SetOutput(help)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag: see --help", flags.Arg(0))
	}
	for _, name := range fields(*packages) {
		o.packages = append(o.packages, filepath.ToSlash(filepath.Clean(name)))
	}
	o.with = fields(*with)
	var err error
	if *only != "" {
		if o.only, err = regexp.Compile(*only); err != nil {
			return o, fmt.Errorf("--only: %w", err)
		}
	}
	if o.shard, err = parseShard(*part); err != nil {
		return o, fmt.Errorf("--shard: %w", err)
	}
	switch {
	case o.operators && (len(o.packages) == 0 || o.random != 0 || o.report != ""):
		return o, errors.New("--operators: needs --package, is without --random, and makes no report")
	case o.random < 0:
		return o, errors.New("--random: at least 1")
	}
	o.operators = o.operators || o.random > 0
	if o.workers < 1 {
		return o, errors.New("--workers: at least 1")
	}
	if o.root, err = moduleRoot(); err != nil {
		return o, err
	}
	if o.state == "" {
		o.state = filepath.Join(o.root, "out", "mutate.json")
	}
	return o, nil
}

func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// A shard is one of some equal parts of the mutants. The zero value is all of them.
type shard struct{ part, of int }

func parseShard(text string) (shard, error) {
	if text == "" {
		return shard{}, nil
	}
	part, of, _ := strings.Cut(text, "/")
	i, err1 := strconv.Atoi(part)
	n, err2 := strconv.Atoi(of)
	if err1 != nil || err2 != nil || i < 1 || i > n {
		return shard{}, fmt.Errorf("%q is not I/N with 1 <= I <= N", text)
	}
	return shard{i, n}, nil
}

func (s shard) has(i int) bool { return s.of == 0 || i%s.of == s.part-1 }

// moduleRoot finds the folder with go.mod, here or above.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod here or above")
		}
		dir = filepath.Dir(dir)
	}
}

// run does what the options say.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	all, err := readTables(o.root)
	if err != nil {
		return err
	}
	if o.operators {
		return runSample(ctx, o, all, out, progress)
	}
	tree, err := readTree(ctx, o.root, all)
	if err != nil {
		return err
	}
	chosen, err := choose(all, tree, o)
	if err != nil {
		return err
	}
	if o.list {
		for _, m := range chosen {
			fmt.Fprintf(out, "%s: %s (%s)\n", m.path(), m.Name, m.verdictDue())
		}
		return nil
	}
	if len(chosen) == 0 {
		return errors.New("no mutant is chosen")
	}
	known, err := readState(o.state)
	if err != nil {
		return err
	}
	for _, name := range o.with {
		if err := known.add(name); err != nil {
			return err
		}
	}
	w := newWorkshop(o, tree, known, progress)
	results, err := w.tryAll(ctx, chosen)
	if err == nil && o.json != "" {
		err = writeResults(o.json, results, out)
	}
	bad := 0
	for _, r := range results {
		if !r.Verdict.good() {
			bad++
		}
	}
	switch {
	case err != nil:
		return err
	case bad > 0:
		return fmt.Errorf("%d of %d mutants are not as they should be", bad, len(results))
	case o.report == "":
		return nil
	}
	if missing := known.missing(all, tree); len(missing) > 0 {
		return fmt.Errorf("no report: %d of %d mutants have no result for the files as they are, such as %s: %s",
			len(missing), len(all), missing[0].path(), missing[0].Name)
	}
	return writeReport(o.report, all)
}

// runSample tries mutants that operators make.
func runSample(ctx context.Context, o options, tables []*Mutant, out, progress io.Writer) error {
	known, err := readState(o.state)
	if err != nil {
		return err
	}
	w := newWorkshop(o, nil, known, progress)
	s, err := w.sample(ctx, tables, out)
	switch {
	case err != nil || o.list:
		return err
	case s.tried == 0:
		return errors.New("no mutant is chosen")
	}
	fmt.Fprint(out, "\n"+strings.Join(s.survivors, "\n")+"\n"+s.String()+"\n")
	if o.report != "" {
		if err := writeSample(o.report, s.section()); err != nil {
			return err
		}
	}
	if s.percent() < o.least {
		return fmt.Errorf("less than %g %% are killed", o.least)
	}
	return nil
}

// quickly is how many mutants a quick run tries at most: each costs some 5 s of a core to compile, to link and to run.
const quickly = 60

// choose returns the mutants that the options ask for.
func choose(all []*Mutant, tree *tree, o options) ([]*Mutant, error) {
	var chosen []*Mutant
	for _, m := range all {
		if len(o.packages) > 0 && !slices.Contains(o.packages, m.Package) ||
			o.only != nil && !o.only.MatchString(m.Name) ||
			o.quick && (m.Test == "" || m.Race || tree.served(m.testPackage())) {
			continue
		}
		chosen = append(chosen, m)
	}
	for _, name := range o.packages {
		if !slices.ContainsFunc(all, func(m *Mutant) bool { return m.Package == name }) {
			return nil, fmt.Errorf("%s has no %s", name, tableName)
		}
	}
	if o.quick {
		chosen = spread(chosen, quickly)
	}
	i := -1
	return slices.DeleteFunc(chosen, func(*Mutant) bool { i++; return !o.shard.has(i) }), nil
}

// spread picks n mutants by the hash of their names: the same ones every time, and a new mutant displaces at most
// one.
func spread(mutants []*Mutant, n int) []*Mutant {
	if len(mutants) <= n {
		return mutants
	}
	byHash := slices.Clone(mutants)
	slices.SortFunc(byHash, func(a, b *Mutant) int { return strings.Compare(a.id(), b.id()) })
	picked := byHash[:n]
	return slices.DeleteFunc(slices.Clone(mutants), func(m *Mutant) bool { return !slices.Contains(picked, m) })
}

// Alarms makes the failures that the alerts of deploy/prometheus are for, and records in a real Prometheus with a real
// Alertmanager which alerts fire: those that must, and no others, until the failure is mended as its runbook says.
//
//	make alerts                       # all failures, 15 minutes
//	make alerts ARGS=--quick          # some of them
//	make alerts ARGS='--only sold-out'
//
// A failure has servers, instances and a Prometheus of its own, so that nothing else can fire. The times in the rules
// are divided by 60 for most failures, and the rest of the rules is the same: an hour takes a minute, a condition that
// must last five minutes lasts five seconds. The time limits of the service are not divided.
//
// Nothing is judged by a clock of this computer, only by the evaluations of Prometheus. If the computer was too slow
// for Prometheus, and the result is wrong, the failure is made again with a smaller factor.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"example.com/stock/internal/words"
	"example.com/stock/tools/bench/rig"
)

func main() {
	ctx, done := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer done()
	logging.Disable() // of go-redis: servers are killed here on purpose
	if err := alarms(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "alarms:", err)
		os.Exit(1)
	}
}

// matrix is the file with what a whole run has shown.
const matrix = "docs/alerts-matrix.json"

func alarms(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("alarms", flag.ContinueOnError)
	quick := f.Bool("quick", false, "only some failures, in 2 minutes")
	only := f.String("only", "", "only these failures, with commas between them")
	rules := f.String("rules", "", "other rules than deploy/prometheus/stock.rules.yml")
	parallel := f.Int("parallel", 4, "how many failures are made at a time")
	write := f.Bool("write", false, "write the results into "+matrix+", from which go run ./alerts makes the tables")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 || *parallel < 1 || *write && *rules != "" {
		return errors.New("want no arguments, --parallel of 1 or more, and no --write of the results of other --rules")
	}
	root, err := rig.Root(ctx)
	if err != nil {
		return err
	}
	if *rules == "" {
		*rules = filepath.Join(root, "deploy/prometheus/stock.rules.yml")
	}
	text, err := os.ReadFile(*rules)
	if err != nil {
		return err
	}
	all, err := failures()
	if err != nil {
		return err
	}
	rows, err := choose(all, *quick, *only)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "alarms-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	program := filepath.Join(folder, "stock")
	rig.Progress("builds stock; %d failures, %d at a time", len(rows), *parallel)
	if err := rig.Build(ctx, root, program); err != nil {
		return err
	}
	results, err := makeAll(ctx, program, string(text), rows, *parallel)
	for _, r := range results {
		fmt.Println(r)
	}
	if err != nil {
		return err
	}
	kept, err := read(filepath.Join(root, matrix))
	if err != nil {
		return err
	}
	if *write {
		made, err := render(merge(all, kept, results))
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(root, matrix), made, 0o644)
	}
	return compare(kept, results)
}

// choose returns the failures of a run.
func choose(all []*failure, quick bool, only string) (rows []*failure, err error) {
	wanted := strings.Split(only, ",")
	for _, f := range all {
		if only == "" && (f.Quick || !quick) || slices.Contains(wanted, f.Name) {
			rows = append(rows, f)
		}
	}
	if only != "" && len(rows) != len(wanted) {
		var names []string
		for _, f := range all {
			names = append(names, f.Name)
		}
		return nil, fmt.Errorf("--only %s: want some of %s", only, strings.Join(names, ", "))
	}
	return rows, nil
}

// tries is how often a failure is made while the computer is too slow. Each time, the times of the rules are twice as
// long.
const tries = 3

// makeAll makes the failures, some at a time. The error has all that went wrong.
func makeAll(ctx context.Context, program, rules string, rows []*failure, parallel int) ([]result, error) {
	results, wrong := make([]result, len(rows)), make([]error, len(rows))
	room := make(chan struct{}, parallel)
	var all sync.WaitGroup
	for i, f := range rows {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			wrong[i] = context.Cause(ctx)
			continue
		}
		all.Go(func() {
			defer func() { <-room }()
			results[i], wrong[i] = f.try(ctx, program, rules)
		})
	}
	all.Wait()
	return slices.DeleteFunc(results, func(r result) bool { return r.Name == "" }), errors.Join(wrong...)
}

// try makes a failure, again and more slowly if the computer was too slow and the result is wrong.
func (f *failure) try(ctx context.Context, program, rules string) (result, error) {
	factor := f.Factor
	if factor == 0 {
		factor = usual
	}
	for n := 1; ; n++ {
		rig.Progress("%s ...", f.Name)
		r, late, err := f.run(ctx, program, rules, factor, rig.Progress)
		if err == nil {
			rig.Progress("%s: as it must be, over after %d evaluations", f.Name, r.resolved)
			return r, nil
		}
		if !late || n == tries || ctx.Err() != nil {
			if late {
				err = fmt.Errorf("no verdict, the computer is too slow: %w", err)
			}
			rig.Progress("%s: WRONG: %v", f.Name, err)
			return result{}, fmt.Errorf("%s: %w", f.Name, err)
		}
		factor /= 2
		rig.Progress("%s: again with times divided by %d, because the computer was too slow (%v)", f.Name, factor, err)
	}
}

//go:embed text
var files embed.FS

// failures returns the rows of the matrix. Each must have its texts, from which tools/alerts makes the tables.
func failures() ([]*failure, error) {
	texts, err := words.ReadTexts(files, "text")
	if err != nil {
		return nil, err
	}
	all := slices.Concat(stores(), locks(), events(), instances())
	for _, f := range all {
		if _, there := texts["rows."+f.Name+".failure"]; !there {
			return nil, fmt.Errorf("text: there is no rows.%s.failure", f.Name)
		}
		_, there := texts["rows."+f.Name+".note"]
		if !there && (len(f.Fires) == 0 || f.NotHere != "") {
			return nil, fmt.Errorf("text: there is no rows.%s.note, which must say why", f.Name)
		}
	}
	return all, nil
}

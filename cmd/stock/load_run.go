package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"example.com/stock/loadtest"
	"example.com/stock/loadtest/report"
)

func (f *loadFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	client, err := openTarget(f.url, f.token, f.mapping, f.plan.Connections())
	if err != nil {
		return err
	}
	defer client.Close()
	catalogue, err := client.Strategies(ctx)
	if err != nil {
		return err
	}
	chosen, leftOut, err := loadtest.Choose(catalogue, f.strategies, f.plan.Store)
	if err != nil {
		return err
	}
	if f.mustRace && !slices.ContainsFunc(chosen, func(s loadtest.Strategy) bool { return s.Promise.Scope != loadtest.Cluster }) {
		return &loadtest.PlanError{Field: "must-race", Reason: "needs a strategy that may lose updates, such as none; those chosen all promise not to"}
	}
	for _, sentence := range leftOut {
		fmt.Fprintln(stderr, sentence)
	}
	var results []*loadtest.Result
	for _, s := range chosen {
		result, failed := f.one(ctx, client, s.Name, len(chosen) > 1, stderr)
		if result != nil {
			results = append(results, result)
		}
		if err = failed; err != nil || result.Interrupted {
			break
		}
	}
	if len(results) > 0 {
		err = errors.Join(err, f.show(results, stdout))
		for _, path := range f.kept {
			fmt.Fprintf(stderr, "wrote %s\n", path)
		}
		err = errors.Join(err, f.out.write(report.Page{Groups: []report.Group{{Runs: results}}}, stderr))
	}
	if err != nil {
		return err
	}
	return f.status(results)
}

// one runs one strategy, with its progress on stderr.
func (f *loadFlags) one(ctx context.Context, client loadtest.Target, name string, several bool, stderr io.Writer) (*loadtest.Result, error) {
	plan := f.plan
	plan.Strategy = name
	var file *historyFile
	if f.history != "" {
		var err error
		if file, err = openHistory(f.history, name, several); err != nil {
			return nil, err
		}
		plan.History = file
	}
	result, err := loadtest.Run(ctx, client, plan, report.ShowProgress(stderr, name, width(stderr)))
	if file != nil {
		err = errors.Join(err, file.Close())
		f.kept = append(f.kept, file.file.Name())
	}
	if result != nil {
		for _, threshold := range f.thresholds {
			result.Expected = append(result.Expected, threshold.Check(result))
		}
	}
	return result, err
}

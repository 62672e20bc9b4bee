package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"example.com/stock/loadtest"
)

// The exit statuses of load, besides 0 and 1.
const (
	exitTarget      = 2
	exitVerdict     = 3
	exitUndecided   = 4
	exitExpectation = 5
	exitInterrupted = 130 // as shells say of a program that SIGINT ended
)

// explainLoad gives err its exit status, and names the flag that mends it.
func explainLoad(err error, token bool) error {
	var plan *loadtest.PlanError
	var target *loadtest.TargetError
	var problem *loadtest.Problem
	switch {
	case err == nil, errors.As(err, new(exitError)):
		return err
	case errors.As(err, &plan):
		return exitError{1, fmt.Errorf("--%s: %s", plan.Field, plan.Reason)}
	case errors.Is(err, context.Canceled):
		return exitError{exitInterrupted, errors.New("interrupted before the first request")}
	case errors.As(err, &problem) && problem.Status == 401 && token:
		return exitError{exitTarget, fmt.Errorf("%w\nThe token of --admin-token or STOCK_ADMIN_TOKEN is not the one that the service was started with", err)}
	case errors.As(err, &problem) && problem.Status == 401:
		return exitError{exitTarget, fmt.Errorf("%w\nGive the token that the service was started with: --admin-token TOKEN, or STOCK_ADMIN_TOKEN in the environment", err)}
	case errors.As(err, &target):
		return exitError{exitTarget, err}
	}
	return exitError{1, err}
}

// status is the exit status of the worst run. All has been said by then.
func (f *loadFlags) status(results []*loadtest.Result) error {
	rank := 0
	codes := []int{0, exitUndecided, exitExpectation, exitVerdict, exitInterrupted} // from good to bad
	for _, r := range results {
		v := &r.Verdict
		code := 0
		switch {
		case r.Interrupted:
			code = exitInterrupted
		case v.Finding == loadtest.Broken && !v.Kept, f.mustRace && v.Luck:
			code = exitVerdict
		case slices.ContainsFunc(r.Expected, func(e loadtest.Expectation) bool { return !e.Met }):
			code = exitExpectation
		case !v.Kept:
			code = exitUndecided
		}
		rank = max(rank, slices.Index(codes, code))
	}
	if rank > 0 {
		return exitError{code: codes[rank]}
	}
	return nil
}

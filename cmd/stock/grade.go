package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"example.com/stock/lab/grade"
	"example.com/stock/lock/locktest/server"
)

// The exit statuses of "stock lab grade". Unlike other commands, it has 1 for a verdict: a script that grades a class
// tells a lock that fails from one that could not be graded.
const (
	exitFailing  = 1
	exitUngraded = 2
)

// A gradeRun holds the flags of the command.
type gradeRun struct {
	voice
	options    grade.Options
	list       bool
	goPackage  string
	servers    []string
	json, html string
	out, err   io.Writer
}

func labGradeCommand(v voice) *cobra.Command {
	r := gradeRun{voice: v}
	ungraded := func(err error) error {
		var status exitError
		if err == nil || errors.As(err, &status) {
			return err
		}
		return exitError{exitUngraded, err}
	}
	cmd := &cobra.Command{
		Use:  "grade [flags] -- COMMAND [ARGUMENT ...]",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			defer untilUnread(cmd)()
			r.out, r.err = cmd.OutOrStdout(), cmd.ErrOrStderr()
			r.options.Command = args
			if r.list {
				return ungraded(r.scenarios())
			}
			if err := r.check(cmd.Flags()); err != nil {
				return ungraded(err)
			}
			return ungraded(r.run(cmd.Context()))
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return ungraded(err) })
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the command are the command's, even without "--"
	flags.StringSliceVar(&r.options.Only, "only", nil, "")
	flags.BoolVar(&r.list, "list", false, "")
	flags.StringVar(&r.options.URL, "http", "", "")
	flags.StringVar(&r.goPackage, "go", "", "")
	flags.StringSliceVar(&r.servers, "servers", nil, "")
	flags.DurationVar(&r.options.Lease, "lease", grade.DefaultLease, "")
	flags.DurationVar(&r.options.Wait, "wait", grade.DefaultWait, "")
	flags.IntVar(&r.options.Waiters, "waiters", grade.DefaultWaiters, "")
	flags.StringVar(&r.html, "html", "", "")
	flags.StringVar(&r.json, "json", "", "")
	return cmd
}

func (r *gradeRun) scenarios() error {
	found, err := grade.Find(r.options.Only...)
	for _, s := range found {
		grade.WriteScenario(r.out, s, string(r.voice))
	}
	return err
}

func (r *gradeRun) check(flags *pflag.FlagSet) error {
	given := 0
	for _, is := range []bool{len(r.options.Command) > 0, r.options.URL != "", r.goPackage != ""} {
		if is {
			given++
		}
	}
	address, err := url.Parse(r.options.URL)
	switch o := r.options; {
	case given == 0:
		return failure("grade.usage")
	case given > 1:
		return failure("grade.one")
	case o.URL != "" && (err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == ""):
		return failure("grade.url")
	}
	for _, name := range r.servers {
		if !slices.Contains(grade.Servers(), server.Kind(name)) {
			return failure("grade.server", "name", name, "list", fmt.Sprint(grade.Servers()))
		}
		r.options.Servers = append(r.options.Servers, server.Kind(name))
	}
	_, err = grade.Find(r.options.Only...)
	return errors.Join(
		within("lease", r.options.Lease, 100*time.Millisecond, 30*time.Second),
		within("wait", r.options.Wait, time.Second, 5*time.Minute), within("waiters", r.options.Waiters, 2, 500),
		err, checkOutput(flags),
	)
}

func (r *gradeRun) run(ctx context.Context) (err error) {
	if r.goPackage != "" {
		dir, err := os.MkdirTemp("", "stock-grade-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if r.options.Command, err = r.build(ctx, dir); err != nil {
			return err
		}
		r.options.Name = r.goPackage
	}
	columns := width(r.err)
	r.options.Server = r.showServers(r.err, false)
	r.options.Began = func(s grade.Scenario) {
		if columns > 0 {
			fmt.Fprintf(r.err, clearLine+"  %s ...", s.Name)
		}
	}
	r.options.Done = func(result grade.Result) {
		if columns > 0 {
			fmt.Fprint(r.err, clearLine)
		}
		grade.WriteResult(r.out, result, string(r.voice))
	}
	report, err := grade.Run(ctx, r.options)
	if len(report.Results) > 0 {
		grade.WriteSummary(r.out, report, string(r.voice))
	}
	err = errors.Join(err, writeJSON(r.json, report))
	if r.html != "" {
		err = errors.Join(err, writeFile(r.html, func(w io.Writer) error {
			return grade.WriteHTML(w, report, string(r.voice), repositoryFrom(r.html))
		}))
	}
	switch {
	case ctx.Err() != nil:
		return exitError{exitInterrupted, failure("interrupted.stopped")}
	case err != nil:
		return err
	case report.Worst().Failed():
		return exitError{exitFailing, nil}
	case report.Worst() == grade.Ungraded:
		return exitError{exitUngraded, nil}
	}
	return nil
}

// repositoryFrom returns the way from a page to the root of the repository, or "" if the command does not run there.
func repositoryFrom(page string) string {
	if _, err := os.Stat("docs/lessons"); err != nil {
		return ""
	}
	root, err := filepath.Abs(".")
	page, absolute := filepath.Abs(page)
	way, relative := filepath.Rel(filepath.Dir(page), root)
	if errors.Join(err, absolute, relative) != nil {
		return ""
	}
	return filepath.ToSlash(way)
}

// build builds the Go package of --go in a folder, and returns the command.
func (r *gradeRun) build(ctx context.Context, dir string) ([]string, error) {
	program := filepath.Join(dir, "mylock")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, r.goPackage).CombinedOutput()
	if err != nil {
		why := strings.TrimSpace(string(out) + " " + err.Error())
		return nil, failure("grade.build", "package", r.goPackage, "why", why)
	}
	return []string{program}, nil
}

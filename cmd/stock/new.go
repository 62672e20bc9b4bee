package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"example.com/stock/internal/starter"
)

func newCommand(v voice) *cobra.Command {
	var c starter.Choice
	var without, with []string
	cmd := &cobra.Command{
		Use:  "new DIR --module PATH",
		Args: exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			if err := errors.Join(onlyPart("without", without, "deploy"), onlyPart("with", with, "lock")); err != nil {
				return err
			}
			c.WithoutDeploy, c.WithLock = len(without) > 0, len(with) > 0
			if err := starter.New(dir, c); err != nil {
				return err
			}
			say := func(key string, pairs ...any) { fmt.Fprintln(cmd.OutOrStdout(), v.say(key, pairs...)) }
			say("new.written", "module", c.Module, "dir", dir)
			untidy, unbuilt := seeItBuild(cmd.Context(), dir, func(command string) {
				say("new.running", "command", command)
			})
			if unbuilt == nil {
				say("new.done", "dir", dir)
				if untidy != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), v.say("new.untidy", "why", untidy, "dir", dir))
				}
				return nil
			}
			status := exitUndecided
			if cmd.Context().Err() != nil {
				status = exitInterrupted
			}
			return exitError{status, failure("new.unverified", "why", errors.Join(untidy, unbuilt), "dir", dir)}
		},
	}
	cmd.Flags().StringVar(&c.Module, "module", "", "")
	cmd.Flags().StringSliceVar(&without, "without", nil, "")
	cmd.Flags().StringSliceVar(&with, "with", nil, "")
	return cmd
}

// onlyPart returns an error if a flag names another part than the one that it can name.
func onlyPart(flag string, parts []string, only string) error {
	for _, part := range parts {
		if part != only {
			return failure("new.part", "flag", flag, "part", part, "only", only)
		}
	}
	return nil
}

// seeItBuild runs git init, go mod tidy and go build in dir. All are tried: tidy asks for more modules than a build
// needs, so it is the first to fail where no module proxy answers. The build is as that of the service's Makefile:
// a go.work in a folder above does not count, because it does not have the new module.
func seeItBuild(ctx context.Context, dir string, running func(command string)) (untidy, unbuilt error) {
	run := func(name string, args ...string) error {
		command := name + " " + strings.Join(args, " ")
		running(command)
		program := exec.CommandContext(ctx, name, args...)
		program.Dir, program.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
		if said, err := program.CombinedOutput(); err != nil {
			return failure("new.failed", "command", command, "why", err, "said", beginning(said))
		}
		return nil
	}
	if _, err := exec.LookPath("git"); err == nil {
		untidy = run("git", "init", "--quiet")
	}
	if _, err := exec.LookPath("go"); err != nil {
		return untidy, failure("new.no-go")
	}
	return errors.Join(untidy, run("go", "mod", "tidy")), run("go", "build", "-trimpath", "./...")
}

// beginning returns the first ten lines of what go has said, without those about downloads: without a proxy, there are
// some for each module.
func beginning(said []byte) string {
	const most = 10
	var lines []string
	for line := range strings.Lines(string(said)) {
		switch {
		case strings.HasPrefix(line, "go: downloading "):
		case len(lines) == most:
			return strings.Join(append(lines, "..."), "")
		default:
			lines = append(lines, line)
		}
	}
	return strings.TrimSuffix(strings.Join(lines, ""), "\n")
}

package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root returns the folder of the service's module.
func Root(ctx context.Context) (string, error) {
	return run(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}", "example.com/stock")
}

// Build builds the stock program of the module in dir.
func Build(ctx context.Context, dir, program string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/stock")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the stock program in %s: %w: %s", dir, err, out)
	}
	return nil
}

// BuildBeside builds the stock program of another version: of a folder, or of a commit of root's repository, which is
// checked out into a folder of its own for as long as that takes. label is the short commit, with "+" if the folder has
// changes, or the folder's name if it is in no repository.
func BuildBeside(ctx context.Context, root, which, program string) (label string, err error) {
	if info, err := os.Stat(which); err == nil && info.IsDir() {
		return Version(ctx, which), Build(ctx, which, program)
	}
	commit, err := run(ctx, root, "git", "rev-parse", "--verify", "--quiet", which+"^{commit}")
	if err != nil {
		return "", fmt.Errorf("--beside: %q is no folder, and no commit of %s", which, root)
	}
	parent, err := os.MkdirTemp("", "bench-beside-")
	if err != nil {
		return "", err
	}
	tree := filepath.Join(parent, "tree")
	defer func() {
		// ctx may have ended, and the work tree must go in any case.
		_, gone := run(context.WithoutCancel(ctx), root, "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, gone, os.RemoveAll(parent))
	}()
	if _, err := run(ctx, root, "git", "worktree", "add", "--quiet", "--detach", tree, commit); err != nil {
		return "", err
	}
	return Version(ctx, tree), Build(ctx, tree, program)
}

// Version returns the short commit of a folder, with "+" if it has changes, or its name.
func Version(ctx context.Context, dir string) string {
	commit, err := run(ctx, dir, "git", "rev-parse", "--short=10", "HEAD")
	if err != nil {
		return filepath.Base(dir)
	}
	changed, err := run(ctx, dir, "git", "status", "--porcelain", "--untracked-files=no")
	if err != nil || changed != "" {
		commit += "+"
	}
	return commit
}

// run returns what a command printed.
func run(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

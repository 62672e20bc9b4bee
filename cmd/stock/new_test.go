package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newService runs stock new, and returns the folder, what was printed, and the exit status.
func newService(t *testing.T) (dir, stdout, stderr string, status int) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "orders")
	stdout, stderr, err := run(t.Context(), "new", dir, "--module", "github.com/acme/orders")
	status, said := ended(err)
	if said != nil {
		stderr += voice("en").message(said)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		t.Error(err)
	}
	return dir, stdout, stderr, status
}

// standInGo puts a program go on PATH, and nothing else. It fails for the commands that are named.
func standInGo(t *testing.T, fails string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	script := "#!/bin/sh\necho \"$PWD: $* $CGO_ENABLED $GOWORK\" >>" + calls + "\n" +
		"case $1 in " + fails + ") n=0; while [ $n -lt 30 ]; do n=$((n+1))\n" +
		"echo \"go: downloading x $n\nno proxy $n\" >&2; done; exit 1;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	return calls
}

// A service that was not built is not said to build: neither in words nor by the exit status.
func TestNewSaysWhatWasVerified(t *testing.T) {
	next := " && GOWORK=off go mod tidy && GOWORK=off go build ./... && make test"
	t.Run("no go", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		dir, stdout, stderr, status := newService(t)
		if status != exitUndecided || stdout != dir+" has the files of github.com/acme/orders.\n" ||
			!strings.Contains(stderr, "no program go on PATH") || !strings.Contains(stderr, "cd "+dir+next) {
			t.Errorf("%d\n%s\n%s", status, stdout, stderr)
		}
	})
	t.Run("no proxy", func(t *testing.T) {
		standInGo(t, "mod|build")
		dir, stdout, stderr, status := newService(t)
		if status != exitUndecided || strings.Contains(stdout, "It builds") ||
			!strings.Contains(stderr, "go mod tidy failed: exit status 1\nno proxy 1\n") ||
			!strings.Contains(stderr, "no proxy 10\n...\ngo build -trimpath ./... failed: exit status 1\nno proxy 1") ||
			strings.Contains(stderr, "no proxy 11") || !strings.Contains(stderr, "cd "+dir+next) {
			t.Errorf("%d\n%s\n%s", status, stdout, stderr)
		}
	})
	t.Run("no proxy for tidy", func(t *testing.T) {
		standInGo(t, "mod")
		dir, stdout, stderr, status := newService(t)
		if status != 0 || !strings.Contains(stdout, "It builds") ||
			!strings.Contains(stderr, "may list more than is needed: go mod tidy failed") ||
			!strings.Contains(stderr, "Later: cd "+dir+" && GOWORK=off go mod tidy") {
			t.Errorf("%d\n%s\n%s", status, stdout, stderr)
		}
	})
	t.Run("all is there", func(t *testing.T) {
		calls := standInGo(t, "nothing")
		dir, stdout, stderr, status := newService(t)
		done, err := os.ReadFile(calls)
		if err != nil || string(done) != dir+": mod tidy 0 off\n"+dir+": build -trimpath ./... 0 off\n" {
			t.Errorf("%v\n%s", err, done)
		}
		if status != 0 || !strings.Contains(stdout, "It builds. Now: cd "+dir+" && make test") || stderr != "" {
			t.Errorf("%d\n%s\n%s", status, stdout, stderr)
		}
	})
}

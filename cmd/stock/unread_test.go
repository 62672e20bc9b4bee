package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Who reads the first line and goes away, as head does, leaves neither a server nor a folder behind.
func TestNobodyReadsOn(t *testing.T) {
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"demo --strategies none --store redis", "lab run local-mutex unlock-before-commit -v"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			temporary, err := os.MkdirTemp("", "unread-") // short: the name of a socket has 107 bytes
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(temporary)
			cmd := exec.CommandContext(t.Context(), path, strings.Fields(args)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := stdout.Read(make([]byte, 1)); err != nil {
				t.Errorf("nothing was written: %v", err)
			}
			stdout.Close()
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
				t.Errorf("%v, want exit status %d\n%s", err, exitInterrupted, &stderr)
			}
			left, err := os.ReadDir(temporary)
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal returns both ends of a pseudo-terminal: the one that a person has, and the one that a program gets.
func terminal(t *testing.T, rows, columns uint16) (person, program *os.File) {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { person.Close() })
	fd := int(person.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	err = errors.Join(err, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0),
		unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns}))
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// On a terminal the page is drawn again and again, in colour, as far as it fits, until Ctrl-C, which is no failure.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	path, err := plain.Path()
	if err != nil {
		t.Fatal(err)
	}
	person, program := terminal(t, 12, 80)
	cmd := exec.CommandContext(t.Context(), path, "watch", "--every", "100ms", "--instances", exposed(t))
	cmd.Env = []string{"STOCK_LANG=en"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = program, program, program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close()
	var out bytes.Buffer
	for sent := false; ; {
		part := make([]byte, 4096)
		n, err := person.Read(part)
		out.Write(part[:n])
		if err != nil { // EIO: the program has ended
			var end *fs.PathError
			if !errors.As(err, &end) {
				t.Error(err)
			}
			break
		}
		if !sent && bytes.Count(out.Bytes(), []byte("\x1b[H")) >= 3 {
			sent = true
			if _, err := person.Write([]byte{3}); err != nil { // Ctrl-C
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%q", err, out.String())
	}
	for _, want := range []string{"\x1b[2J", "\x1b[1;31m0!\x1b[0m", "more lines: make the window taller"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%q", want, out.String())
		}
	}
	pages := strings.Split(out.String(), "\x1b[H")
	for _, page := range pages {
		if n := strings.Count(page, "\n"); n > 11 {
			t.Errorf("a page of %d lines on a terminal of 12:\n%s", n, page)
		}
	}
}

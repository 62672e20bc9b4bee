package stack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const installClock = "apt-get install libfaketime"

// errOwnClock: a server that goes by the clock of the computer cannot be set.
var errOwnClock = errors.New("has no clock of its own: see Options.Clocks")

// A clock is the wall clock of one server, which libfaketime reads from a file. It runs at the usual rate, and jumps when the file changes. Clocks
// that measure time spans (CLOCK_MONOTONIC) stay as they are, as they do on a computer whose wall clock is set.
type clock struct{ file string }

// CheckClocks is nil if servers can have a clock of their own here, and otherwise a MissingError.
func CheckClocks() error {
	_, err := clockLibraries()
	return err
}

// clockLibraries is what the dynamic linker is to load before a server's own libraries. The C library is among them because redis-server comes with
// jemalloc, which asks for the time before libfaketime is ready: so malloc is taken from the C library instead.
func clockLibraries() (preload string, err error) {
	for _, pattern := range []string{"/usr/lib/*/faketime", "/usr/lib64/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime"} {
		dirs, _ := filepath.Glob(pattern) // fails for a malformed pattern only
		for _, dir := range dirs {
			faketime := filepath.Join(dir, "libfaketimeMT.so.1")
			libc := filepath.Join(filepath.Dir(dir), "libc.so.6")
			if isFile(faketime) && isFile(libc) {
				return faketime + ":" + libc, nil
			}
		}
	}
	return "", &MissingError{"libfaketime", installClock}
}

// newClock makes a clock that shows the computer's time, and the environment of a server which goes by it.
func newClock(dir string) (*clock, []string, error) {
	preload, err := clockLibraries()
	if err != nil {
		return nil, nil, err
	}
	c := &clock{filepath.Join(dir, "clock")}
	if err := c.set(0); err != nil {
		return nil, nil, err
	}
	return c, append(os.Environ(), "LD_PRELOAD="+preload, "FAKETIME_TIMESTAMP_FILE="+c.file,
		"FAKETIME_NO_CACHE=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"), nil
}

// set makes the clock differ from the computer's by ahead. The file is replaced in one step: it is read at every look at the time.
func (c *clock) set(ahead time.Duration) error {
	next := c.file + ".next"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+f\n", ahead.Seconds()), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.file)
}

// SetClock makes the wall clock of a Redis that was started with [Options.Clocks] differ from the computer's by ahead, from now on: it jumps. A
// negative ahead sets it back. It outlives a restart.
func (s *Server) SetClock(ahead time.Duration) error {
	if s.clock == nil {
		return fmt.Errorf("%s %w", s.Name, errOwnClock)
	}
	if err := s.clock.set(ahead); err != nil {
		return fmt.Errorf("set the clock of %s: %w", s.Name, err)
	}
	return nil
}

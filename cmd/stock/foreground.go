package main

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A foreground lends the foreground of the controlling terminal to the group of the command. What is typed is for the
// group in the foreground, and so are the signals of the keyboard. All others are stopped when they read.
type foreground struct {
	fd    int // of the terminal; -1: there is none
	own   int // the group of this process
	group int // the group of the command
	given bool
}

func openForeground() foreground {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return foreground{fd: fd, own: unix.Getpgrp()}
}

func (f *foreground) close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
	}
}

// has returns the group in the foreground, or 0.
func (f *foreground) has() int {
	group, err := unix.IoctlGetInt(f.fd, unix.TIOCGPGRP)
	if err != nil {
		return 0
	}
	return group
}

// lent reports whether the command is in the foreground.
func (f *foreground) lent() bool { return f.group != 0 && f.has() == f.group }

// lend gives the command the foreground if this process has it. It reports whether the command has it.
func (f *foreground) lend() bool {
	if f.has() == f.own {
		f.given = unix.IoctlSetPointerInt(f.fd, unix.TIOCSPGRP, f.group) == nil
	}
	return f.lent()
}

// takeBack takes the foreground from the command, or from a group that is gone. Others keep it: a shell, for example,
// that runs this process in the background.
func (f *foreground) takeBack() {
	if !f.given {
		return
	}
	if now := f.has(); now == f.group || now > 0 && errors.Is(unix.Kill(-now, 0), unix.ESRCH) {
		_ = unix.IoctlSetPointerInt(f.fd, unix.TIOCSPGRP, f.own)
	}
}

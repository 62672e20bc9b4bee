package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"

	"example.com/stock/lock"
)

// A child is the command that runs under the lock.
type child struct {
	voice
	*exec.Cmd
	killAfter time.Duration
	to        io.Writer
	own       bool // whether it has a process group of its own
}

func (r *lockRun) child(path string, lease *lock.Lease) *child {
	c := exec.Command(path, r.argv[1:]...)
	c.Args[0] = r.argv[0]
	c.Stdin, c.Stdout, c.Stderr = r.stdin, r.stdout, r.stderr
	c.Env = append(os.Environ(),
		envStrategy+"="+r.strategy, envKey+"="+r.key, envFence+"="+strconv.FormatUint(uint64(lease.Fence()), 10))
	// In a group of its own it could not read from the terminal.
	own := !term.IsTerminal(int(os.Stdin.Fd()))
	c.SysProcAttr = attributes(own)
	return &child{voice: r.voice, Cmd: c, killAfter: r.killAfter, to: r.stderr, own: own}
}

// run starts the command. It returns when the command has ended and, if the lock was lost, nothing is left of its
// group. The exit status is an exitError, or nil for 0.
func (c *child) run(lease *lock.Lease, signals <-chan os.Signal) error {
	// The kernel kills the child when the thread that started it dies.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := c.Start(); err != nil {
		return notStarted(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	lost := lease.Done()
	var kill <-chan time.Time
	var deadline time.Time
	for {
		select {
		case s := <-signals:
			c.pass(s.(syscall.Signal))
		case <-lost:
			lost = nil
			fmt.Fprintln(c.to, "stock:", c.say("lock.lost-now", "why", lease.Err(), "after", c.killAfter.String()))
			c.signal(syscall.SIGTERM)
			deadline = time.Now().Add(c.killAfter)
			timer := time.NewTimer(c.killAfter)
			defer timer.Stop()
			kill = timer.C
		case <-kill:
			c.signal(syscall.SIGKILL)
		case err := <-ended:
			if lost == nil {
				c.clear(deadline)
				return exitError{exitLost, failure("lock.lost")}
			}
			return status(err)
		}
	}
}

// pass forwards a signal. In the group of the terminal, the command has already had the signals from the keyboard.
func (c *child) pass(s syscall.Signal) {
	if c.own || s == syscall.SIGTERM {
		c.signal(s)
	}
}

func (c *child) signal(s syscall.Signal) {
	pid := c.Process.Pid
	if c.own {
		pid = -pid
	}
	_ = syscall.Kill(pid, s)
}

// clear waits for the processes that the command has left behind, and kills them at the deadline: they must not go on
// without the lock.
func (c *child) clear(deadline time.Time) {
	for c.own && syscall.Kill(-c.Process.Pid, 0) == nil {
		if time.Now().After(deadline) {
			c.signal(syscall.SIGKILL)
			return
		}
		time.Sleep(10 * time.Millisecond) // there is no other way to wait for a group
	}
}

// status returns the exit status that a shell would show.
func status(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit):
		return exitError{exitFault, err}
	}
	if state, ok := exit.Sys().(syscall.WaitStatus); ok && state.Signaled() {
		return exitError{exitSignal + int(state.Signal()), nil}
	}
	return exitError{exit.ExitCode(), nil}
}

func notStarted(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitError{exitNotFound, err}
	}
	return exitError{exitNotRun, err}
}

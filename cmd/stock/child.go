package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/term"

	"example.com/stock/lock"
)

// A child is the command that runs under the lock. It has a process group of its own, so that this process decides at
// waking from a stop whether the command may go on.
type child struct {
	voice
	*exec.Cmd
	killAfter time.Duration
	lease     *lock.Lease
	locker    lock.Locker
	owner     string
	aside     *aside
	terminal  foreground
	stops     chan os.Signal
	strangers []int // children that this process had before

	ended  bool
	lost   bool
	asleep bool // stopped, until it is known that the lock is held
	status syscall.WaitStatus
	immune map[int]bool // the processes that may not be signalled, and have been reported
}

func (r *lockRun) child(path string, l lock.Locker, lease *lock.Lease) *child {
	c := exec.Command(path, r.argv[1:]...)
	c.Args[0] = r.argv[0]
	// These are files: nothing here would copy for other readers and writers.
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), envStrategy+"="+r.strategy, envKey+"="+r.key,
		envFence+"="+strconv.FormatUint(uint64(lease.Fence()), 10),
		envHeld+"="+os.Getenv(envHeld)+r.strategy+" "+r.key+"\n")
	c.SysProcAttr = attributes()
	return &child{
		voice: r.voice, Cmd: c, killAfter: r.killAfter,
		lease: lease, locker: l, owner: r.owner(), aside: newAside(r.stderr),
		stops: make(chan os.Signal, 1), immune: map[int]bool{},
	}
}

// run starts the command. It returns when the command has ended and, if the lock was lost, so has all it started.
// Nothing that is printed delays that. The exit status is an exitError, or nil for 0.
func (c *child) run(signals <-chan os.Signal) error {
	defer c.aside.end()
	// The kernel kills the command when the thread that started it dies.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.warn()
	c.terminal = openForeground()
	defer c.terminal.close()
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGCHLD)
	defer signal.Stop(changed)
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(c.stops, syscall.SIGTSTP)
		defer signal.Stop(c.stops)
	}
	c.strangers = below(os.Getpid(), nil) // of a shell that has replaced itself by this program
	adopt()
	if err := c.Start(); err != nil {
		return notStarted(err)
	}
	c.terminal.group = c.Process.Pid
	signal.Ignore(syscall.SIGTTOU) // this process writes while the command has the terminal
	defer c.terminal.takeBack()
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) {
		c.terminal.lend() // in a pipeline, another command may need it: there the command gets it when it reads
	}

	lost := c.lease.Done()
	var tick <-chan time.Time
	var deadline time.Time
	for {
		select {
		case s := <-signals:
			c.pass(s.(syscall.Signal))
		case <-c.stops:
			c.pause(false)
		case <-lost:
			lost, c.lost = nil, true
			c.signal(syscall.SIGTERM)
			c.signal(syscall.SIGCONT) // what is stopped would not see SIGTERM
			c.tell("lock.lost-now", "why", c.lease.Err(), "after", c.killAfter.String())
			deadline = time.Now().Add(c.killAfter)
			ticker := time.NewTicker(50 * time.Millisecond)
			defer ticker.Stop()
			tick = ticker.C
		case <-tick:
			if time.Now().After(deadline) {
				c.signal(syscall.SIGKILL) // again and again: others may have been started meanwhile
			}
		case <-changed:
		}
		left := c.reap()
		switch {
		case !c.ended:
		case !c.lost:
			return status(c.status)
		case !left:
			return exitError{exitLost, nil}
		}
	}
}

// warn says what could not be ended.
func (c *child) warn() {
	info, err := os.Stat(c.Path)
	if err != nil {
		return // Start reports it
	}
	of, ok := info.Sys().(*syscall.Stat_t)
	me := os.Geteuid()
	if ok && info.Mode()&os.ModeSetuid != 0 && me != 0 && int(of.Uid) != me {
		c.tell("lock.other-user", "command", c.Path)
	}
	if runtime.GOOS != "linux" {
		c.tell("lock.only-group")
	}
}

// tell prints a text without waiting for the output.
func (c *child) tell(key string, pairs ...any) { c.aside.print("stock: " + c.say(key, pairs...)) }

// all returns the numbers of the command and of all that it has started, or that of its group if they are not found.
func (c *child) all() []int {
	pids := below(os.Getpid(), c.strangers)
	if group := -c.Process.Pid; len(pids) == 0 && syscall.Kill(group, 0) == nil {
		return []int{group}
	}
	return pids
}

// reap collects the children of this process that have ended or stopped. It reports whether any process of the
// command's is left: on Linux an orphan is a child of this process.
func (c *child) reap() (left bool) {
	for {
		var state syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &state, syscall.WNOHANG|syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil, pid == 0:
			return err == nil && len(c.strangers) == 0 || len(c.all()) > 0
		case pid != c.Process.Pid:
		case state.Stopped():
			c.stopped(state.StopSignal())
		default:
			c.ended, c.status = true, state
		}
	}
}

// stopped reacts to a stop of the command. If the terminal is the reason, the command gets the terminal, or this
// process stops, too, as shells expect of a job.
func (c *child) stopped(s syscall.Signal) {
	asks := s == syscall.SIGTTIN || s == syscall.SIGTTOU
	switch {
	case c.asleep, c.lost:
	case asks && c.terminal.lend():
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGCONT)
	case asks, s == syscall.SIGTSTP, c.terminal.lent():
		if !c.pause(true) && asks {
			// Nobody can ever give it the terminal: the kernel does the same for orphaned groups.
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGHUP)
			_ = syscall.Kill(-c.Process.Pid, syscall.SIGCONT)
		}
	}
}

// pause stops the command and all that it has started, and then this process; with whole, also the other processes of
// its group. It returns after waking. If the lock is lost by then, the command stays stopped until it is ended.
//
// pause returns false if this process must not stop, because nobody would wake it.
func (c *child) pause(whole bool) bool {
	c.signal(syscall.SIGSTOP)
	can := canStop()
	if can {
		signal.Ignore(syscall.SIGTSTP)
		if whole {
			_ = syscall.Kill(0, syscall.SIGTSTP)
		}
		stop()
		signal.Notify(c.stops, syscall.SIGTSTP)
	}
	for c.asleep = true; c.asleep && c.lease.Err() == nil; {
		switch holds, err := c.holds(); {
		case err != nil:
			time.Sleep(50 * time.Millisecond) // the server is back soon, or the lease ends
		case holds:
			c.asleep = false
		default:
			return can // the lease is about to find out
		}
	}
	if c.asleep {
		return can
	}
	if c.terminal.given {
		c.terminal.lend()
	}
	c.signal(syscall.SIGCONT)
	return can
}

// holds asks the server whether the lock is still held: the lease of a process that has just woken does not know yet.
func (c *child) holds() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	state, err := lock.Inspect(ctx, c.locker, c.lease.Key())
	if err != nil || state.Holder == nil {
		return false, err
	}
	fence := c.lease.Fence()
	return state.Holder.Fence == fence && (fence != lock.NoFence || state.Holder.Who == c.owner), nil
}

// pass forwards a signal to the command's group. A stopped command would not see it.
func (c *child) pass(s syscall.Signal) {
	if err := syscall.Kill(-c.Process.Pid, s); errors.Is(err, syscall.EPERM) {
		c.tell("lock.not-passed", "signal", s.String(), "why", err)
	}
	_ = syscall.Kill(-c.Process.Pid, syscall.SIGCONT)
}

// signal sends s to the command and to all that it has started. It reports the processes that may not be signalled.
func (c *child) signal(s syscall.Signal) {
	repeat := s == syscall.SIGSTOP || s == syscall.SIGKILL // after these two a process starts no others
	seen := map[int]bool{}
	for again := true; again; {
		again = false
		for _, pid := range c.all() {
			if seen[pid] {
				continue
			}
			seen[pid], again = true, repeat
			err := syscall.Kill(pid, s)
			if errors.Is(err, syscall.EPERM) && !c.immune[pid] {
				c.immune[pid] = true
				c.tell("lock.not-ended", "process", strconv.Itoa(pid), "why", err)
			}
		}
	}
}

// status returns the exit status that a shell would show.
func status(state syscall.WaitStatus) error {
	switch {
	case state.Signaled():
		return exitError{exitSignal + int(state.Signal()), nil}
	case state.ExitStatus() != 0:
		return exitError{state.ExitStatus(), nil}
	}
	return nil
}

func notStarted(err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return exitError{exitNotFound, err}
	}
	return exitError{exitNotRun, err}
}

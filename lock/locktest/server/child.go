package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// groupBound is how long awaitGroup waits.
const groupBound = 500 * time.Millisecond

// ErrNotRunning is the error of a signal to a server or a process that has ended.
var ErrNotRunning = errors.New("not running")

// A Command is a program to run as a child process.
type Command struct {
	Path string
	Args []string
	Env  []string // nil: the environment of this process
	Dir  string   // the working folder
	Log  string   // its output is appended to this file
}

// Start launches the command. On Linux it gets the signal onDeath when this process dies: SIGKILL, or SIGTERM for a
// program that has to end workers of its own.
func (c Command) Start(onDeath syscall.Signal) (Run, error) { return c.start(onDeath) }

func (c Command) start(onDeath syscall.Signal) (*child, error) {
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the child has its own copy, so no goroutine is needed to copy output
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = c.Env, c.Dir, log, log
	return begin(cmd, onDeath)
}

// StartProcess starts a program in a process group of its own, which is killed with its leader. On Linux it is also
// killed when this process dies.
func StartProcess(cmd *exec.Cmd) (Run, error) { return begin(cmd, syscall.SIGKILL) }

// begin starts cmd in a process group of its own. onDeath is its parent-death signal: see processGroup.
func begin(cmd *exec.Cmd, onDeath syscall.Signal) (*child, error) {
	cmd.SysProcAttr = processGroup(onDeath)
	p := &child{cmd: cmd, exit: make(chan struct{})}
	started := make(chan error)
	go p.own(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Finish runs the command to its end. If ctx ends first, it is killed.
func (c Command) Finish(ctx context.Context) error {
	from := size(c.Log)
	p, err := c.start(syscall.SIGKILL)
	if err != nil {
		return err
	}
	select {
	case <-p.exit:
	case <-ctx.Done():
		_ = p.Signal(syscall.SIGKILL)
		<-p.exit
		return fmt.Errorf("%s: %w", c.Path, context.Cause(ctx))
	}
	if !p.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %s%s", c.Path, p.Outcome(), tail(c.Log, from))
	}
	return nil
}

// A child is one run of a child process, in a process group of its own: Ctrl-C in a terminal reaches only this process,
// which then stops its children in the right order.
type child struct {
	cmd  *exec.Cmd
	exit chan struct{}

	// mu is held for every signal and for the reaping, so that no signal goes to a pid that now belongs to another
	// process.
	mu     sync.Mutex
	reaped bool
}

// own starts the child, waits for its end and closes exit. It locks its thread for all that time: Linux sends the
// parent-death signal when the *thread* that forked ends, and the runtime may end any other thread, which would kill a
// healthy child. The price is one sleeping thread per child.
func (c *child) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := c.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	c.reap()
	c.awaitGroup()
	close(c.exit)
}

// awaitGroup waits until the rest of the killed group is gone, because nginx's workers keep the port open for some
// milliseconds after their master. This process can wait(2) only for those that it has adopted. Signal 0 only tests
// whether the group exists, so it is harmless if the number now belongs to another group. The wait is bounded, because
// in a container whose first process never reaps, a zombie counts as alive.
func (c *child) awaitGroup() {
	for deadline := time.Now().Add(groupBound); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		c.reapGroup()
		if syscall.Kill(-c.Pid(), 0) != nil {
			return
		}
	}
}

func (c *child) Pid() int                { return c.cmd.Process.Pid }
func (c *child) Exited() <-chan struct{} { return c.exit }

func (c *child) Outcome() string {
	if c.cmd.ProcessState == nil {
		return "running"
	}
	return c.cmd.ProcessState.String()
}

// signal sends sig to the whole group, except SIGTERM, which goes to the leader: it stops its workers itself, in its
// own order.
func (c *child) Signal(sig syscall.Signal) error {
	to := -c.Pid()
	if sig == syscall.SIGTERM {
		to = c.Pid()
	}
	c.mu.Lock()
	if c.reaped {
		c.mu.Unlock()
		return ErrNotRunning
	}
	err := syscall.Kill(to, sig)
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("send %v: %w", sig, err)
	}
	if sig == syscall.SIGSTOP {
		c.awaitStop()
	}
	return nil
}

// A MissingError reports that a program is not installed, and how to install it.
type MissingError struct {
	Program string // what was looked for
	Install string // the shell command that installs it
}

func (e *MissingError) Error() string {
	return e.Program + " not found on PATH: " + e.Install
}

// Find looks for a program on PATH, under any of its names, and in the sbin folders beside those of PATH: an ordinary
// user of Debian has /usr/bin on PATH, but mariadbd and nginx are in /usr/sbin.
func Find(install string, names ...string) (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return filepath.Abs(path)
		}
		for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
			path := filepath.Join(filepath.Dir(dir), "sbin", name)
			if filepath.IsAbs(path) && isProgram(path) {
				return path, nil
			}
		}
	}
	return "", &MissingError{names[0], install}
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// How much of a log is quoted: enough for the head of a Java stack trace, and for mariadbd's three lines about an
// error.
const (
	tailLines = 15
	tailBytes = 4 << 10
)

// size returns the current length of a log. The error of a start quotes only later lines.
func size(log string) int64 {
	info, err := os.Stat(log)
	if err != nil {
		return 0
	}
	return info.Size()
}

// tail returns the last lines of log after from, as the end of an error message. It is empty if there are none.
func tail(log string, from int64) string {
	f, err := os.Open(log)
	if err != nil {
		return ""
	}
	defer f.Close()
	if end, err := f.Seek(0, io.SeekEnd); err == nil {
		from = max(from, end-tailBytes)
	}
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, tailBytes))
	if err != nil || len(text) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-tailLines):]
	return "; the last lines of " + log + ":\n  " + strings.Join(lines, "\n  ")
}

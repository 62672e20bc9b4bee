//go:build unix && !linux

package server

import "syscall"

// processGroup gives the child a process group of its own. There is no parent-death signal here: a child outlives a
// killed parent.
func processGroup(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the end, and kills what the leader left behind. Unlike on Linux, no waitid leaves a zombie here, so
// the group's number is free for a moment before the kill.
func (c *child) reap() {
	_ = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.Pid(), syscall.SIGKILL)
	c.reaped = true
}

// awaitStop does nothing. Here Pause returns a moment before the signal takes effect.
func (c *child) awaitStop() {}

// reapGroup does nothing: no process is a subreaper here.
func (c *child) reapGroup() {}

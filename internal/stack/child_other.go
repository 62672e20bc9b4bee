//go:build unix && !linux

package stack

import "syscall"

// processGroup gives the child a process group of its own. There is no parent-death signal here: a child outlives a
// killed parent.
func processGroup(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the end, and kills what the leader left behind. There is no waitid here that leaves a zombie, so the
// group's number is free for a moment before the kill. On Linux it is not.
func (c *child) reap() {
	_ = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pid(), syscall.SIGKILL)
	c.reaped = true
}

// awaitStop does nothing. Here Pause returns when the signal is sent, which is a moment before it takes effect.
func (c *child) awaitStop() {}

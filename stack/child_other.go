//go:build unix && !linux

package stack

import "syscall"

// leave gives the child a process group of its own. There is no parent-death signal here: a child outlives a killed parent.
func leave(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// reap waits for the end, and kills what the leader left behind. Without a waitid that can leave a zombie, the group's number is
// free for a moment before the kill; on Linux it is not.
func (c *child) reap() {
	_ = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pid(), syscall.SIGKILL)
	c.reaped = true
}

// awaitStop does nothing: here Pause returns when the signal is sent, which is a moment before it has its effect.
func (c *child) awaitStop() {}

package server

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// processGroup gives the child its own process group and a parent-death signal: the kernel sends onDeath to the child
// when this process dies without having stopped it. Only the leader gets the signal, so it must be SIGTERM for a leader
// that has to end its workers. The signal is lost when the child changes its user.
func processGroup(onDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onDeath}
}

// reap waits for the end, kills what the leader left behind in its group, and only then frees the pid. While the
// leader is a zombie, neither its pid nor its group's number can be given to another process.
func (c *child) reap() {
	for {
		err := unix.Waitid(unix.P_PID, c.Pid(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.Pid(), syscall.SIGKILL)
	_ = c.cmd.Wait()
	c.reaped = true
}

// awaitStop waits until the child has stopped after a SIGSTOP, or has ended. kill(2) returns before the signal takes
// effect.
func (c *child) awaitStop() {
	for {
		err := unix.Waitid(unix.P_PID, c.Pid(), nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// reapGroup reaps those of a killed group that have become children of this process, because it is their subreaper.
func (c *child) reapGroup() {
	for {
		if pid, err := unix.Wait4(-c.Pid(), nil, unix.WNOHANG, nil); err != nil || pid <= 0 {
			return
		}
	}
}

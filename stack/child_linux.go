package stack

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// leave gives the child a process group of its own and a safety net: the signal that the kernel sends it when this process
// dies without having stopped it. The net has holes: it knows the leader only, so last is SIGTERM where the leader must end
// its workers, and it is lost when the child changes its user.
func leave(last syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: last}
}

// reap waits for the end, kills what the leader left behind in its group, and only then frees the pid: as long as the leader is
// a zombie, neither its pid nor its group's can belong to anybody else.
func (c *child) reap() {
	for {
		err := unix.Waitid(unix.P_PID, c.pid(), nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = syscall.Kill(-c.pid(), syscall.SIGKILL)
	_ = c.cmd.Wait()
	c.reaped = true
}

// awaitStop waits until the child has stopped after a SIGSTOP, or has ended: kill(2) returns before the signal has its effect.
func (c *child) awaitStop() {
	for {
		err := unix.Waitid(unix.P_PID, c.pid(), nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

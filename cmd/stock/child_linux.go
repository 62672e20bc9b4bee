package main

import "syscall"

// attributes gives the command a process group if own is set. The kernel kills the command if this process is killed,
// since nobody could tell it then that the lock is lost. Processes that the command has started live on.
func attributes(own bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: own, Pdeathsig: syscall.SIGKILL}
}

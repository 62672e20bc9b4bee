package main

import "syscall"

// attributes gives the command a process group, unless it is to share ours, and kills it if this process is killed: nobody would tell it
// then that the lock is lost. What it has started itself lives on.
func attributes(own bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: own, Pdeathsig: syscall.SIGKILL}
}

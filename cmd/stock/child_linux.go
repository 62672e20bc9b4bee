package main

import "syscall"

// attributes gives the command a process group if own is set, and has it killed if this process is killed: then nobody
// would tell it that the lock is lost. Processes that it has started itself live on.
func attributes(own bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: own, Pdeathsig: syscall.SIGKILL}
}

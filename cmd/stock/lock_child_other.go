//go:build unix && !linux

package main

import "syscall"

// attributes gives the command a process group, unless it is to share ours. There is no parent-death signal here: it outlives a
// killed stock, without the lock.
func attributes(own bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: own} }

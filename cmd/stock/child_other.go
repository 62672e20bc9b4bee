//go:build unix && !linux

package main

import "syscall"

// attributes gives the command a process group if own is set. There is no parent-death signal here: the command
// outlives a killed stock, without the lock.
func attributes(own bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: own} }

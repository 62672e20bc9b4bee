//go:build unix && !linux

package main

import (
	"os"
	"syscall"
)

// attributes gives the command a process group. There is no parent-death signal here: the command outlives a killed
// stock, without the lock.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// adopt does nothing: here an orphan becomes a child of the first process.
func adopt() {}

// below returns nothing. Here only the members of the command's group are found.
func below(int, []int) []int { return nil }

// canStop reports whether this process may stop. Here it is not known who would wake it.
func canStop() bool { return true }

// stop stops this process.
func stop() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

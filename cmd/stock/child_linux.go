package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes gives the command a process group. The kernel kills the command if this process is killed, since nobody
// could tell it then that the lock is lost. Processes that the command has started live on, and so does a command that
// changes its user.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// adopt makes orphans below this process its children, so that setsid and a parent that ends hide no process from it.
func adopt() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) } // an error of kernels before 3.4

// A process is an entry of /proc.
type process struct{ parent, group, session int }

// processes returns all processes but zombies. Without /proc it returns none.
func processes() map[int]process {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	all := make(map[int]process, len(stats))
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var p process
		var state byte
		fields := stat[bytes.LastIndexByte(stat, ')')+1:] // the name of a program may contain anything
		_, err = fmt.Sscanf(string(fields), " %c %d %d %d", &state, &p.parent, &p.group, &p.session)
		pid, wrong := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && wrong == nil && state != 'Z' && state != 'X' {
			all[pid] = p
		}
	}
	return all
}

// below returns the processes below root, without its children in except and what is below these.
func below(root int, except []int) (pids []int) {
	children := make(map[int][]int)
	for pid, p := range processes() {
		children[p.parent] = append(children[p.parent], pid)
	}
	pids = slices.DeleteFunc(children[root], func(pid int) bool { return slices.Contains(except, pid) })
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
		delete(children, pids[i]) // a number that has been given anew must not make a circle
	}
	return pids
}

// canStop reports whether this process may stop: a shell waits that will wake it. The kernel asks the same of a group
// ("orphaned").
func canStop() bool {
	all := processes()
	own := all[os.Getpid()]
	for p := own; ; {
		parent, ok := all[p.parent]
		switch {
		case !ok || parent.session != own.session:
			return false
		case parent.group != own.group:
			return true
		}
		p = parent
	}
}

// stop stops this process. It returns when the process has been woken: a signal for the calling thread takes effect
// before the system call returns.
func stop() { _ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP) }

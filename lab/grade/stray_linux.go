package grade

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of every descendant whose own parent ends, in place of the init process. So
// killStrays finds those that have left their process group.
func adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// killStrays kills what the processes of startProcess have left behind outside their groups, once the processes have
// ended. mark is a variable (NAME=value) that only the environment of these processes has. A stray is
//
//   - a process of this user whose environment has the mark, or
//   - a child of this process in a session that is not ours and has no terminal, unless its environment has another
//     value of the mark. All other children are in our session, or on a terminal. So this is a process that has cleared
//     its environment and called setsid, such as a daemon, or a descendant of one.
//
// Not found is a process that has cleared its environment and left its group, but not the session, and one that runs as
// another user.
func killStrays(mark string) {
	for done := map[int]bool{}; ; {
		found := false
		list, _ := filepath.Glob("/proc/[0-9]*") // fails only for a malformed pattern
		for _, dir := range list {
			pid, err := strconv.Atoi(filepath.Base(dir))
			if err != nil || pid == os.Getpid() || done[pid] {
				continue
			}
			// The state is read after the process is opened: its number may go to another process, the handle not.
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue
			}
			if isStray(dir, mark) && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
				found, done[pid] = true, true
				awaitEnd(pid, fd)
			}
			unix.Close(fd)
		}
		if !found {
			return // what was killed had no more children
		}
	}
}

// isStray reports whether the process of a folder below /proc is a stray.
func isStray(dir, mark string) bool {
	environ, err := os.ReadFile(dir + "/environ")
	if err != nil {
		return false
	}
	name, _, _ := strings.Cut(mark, "=")
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if before, _, _ := strings.Cut(string(variable), "="); before == name {
			return string(variable) == mark
		}
	}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return false
	}
	var state string
	var parent, group, session, terminal int
	behind := stat[bytes.LastIndexByte(stat, ')')+1:] // the name of the program may have any characters
	if _, err := fmt.Sscan(string(behind), &state, &parent, &group, &session, &terminal); err != nil {
		return false
	}
	ours, err := unix.Getsid(0)
	return err == nil && parent == os.Getpid() && session != ours && terminal == 0 && state != "Z"
}

const killBound = 500 * time.Millisecond

// awaitEnd waits until a killed process has ended, so that its children have another parent. The wait is bounded,
// because a process that waits for a disk ends late.
func awaitEnd(pid, fd int) {
	ends := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	_, err := unix.Poll(ends, int(killBound.Milliseconds()))
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Poll(ends, int(killBound.Milliseconds()))
	}
	_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil) // if it is our child, it would stay as a zombie
}

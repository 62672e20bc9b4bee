package stack

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// KillMarked kills every process of this user whose environment has the variable mark (NAME=value), and returns how
// many it killed. It finds what left its process group, such as a daemon, unless that has cleared its environment.
func KillMarked(mark string) (killed int) {
	list, _ := filepath.Glob("/proc/[0-9]*/environ") // fails only for a malformed pattern
	for _, file := range list {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || pid == os.Getpid() {
			continue
		}
		// The environment is read after the process is opened: its number may go to another process, the handle not.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if environ, err := os.ReadFile(file); err == nil && marked(environ, mark) &&
			unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil {
			killed++
		}
		unix.Close(fd)
	}
	return killed
}

func marked(environ []byte, mark string) bool {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if string(variable) == mark {
			return true
		}
	}
	return false
}

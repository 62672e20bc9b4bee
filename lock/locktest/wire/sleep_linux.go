package wire

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// sleep waits for a short time, with an error of some ten microseconds. It waits for a file, because a timer of the Go
// runtime may be a millisecond late in an idle process.
func sleep(d time.Duration) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		time.Sleep(d)
		return
	}
	timer := os.NewFile(uintptr(fd), "timer")
	defer timer.Close()
	_ = unix.TimerfdSettime(fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(d.Nanoseconds())}, nil)
	_, _ = timer.Read(make([]byte, 8)) // how often it has run out
}

package locktest

import (
	"time"

	"golang.org/x/sys/unix"
)

// now returns the time since this computer started. All processes of the computer read the same time, even if the wall
// clock is set.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}

package locktest

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is a moment that all processes of this computer agree on, whatever happens to the calendar: time since it was
// started.
func now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}

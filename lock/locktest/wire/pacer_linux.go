package wire

import (
	"time"

	"golang.org/x/sys/unix"
)

// sharpTimers makes the kernel wake the calling thread on time. By default it may be 50 µs late, to save power.
func sharpTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

// sleepUntil sleeps in the kernel.
func sleepUntil(due time.Time) {
	for rest := time.Until(due); rest > 0; rest = time.Until(due) {
		t := unix.NsecToTimespec(rest.Nanoseconds())
		_ = unix.Nanosleep(&t, nil) // a signal ends it early; hence the loop
	}
}

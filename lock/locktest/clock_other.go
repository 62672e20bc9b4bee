//go:build !linux

package locktest

import "time"

// now returns a time that is the same for all processes of this computer, as long as nobody sets the clock.
func now() time.Duration { return time.Duration(time.Now().UnixNano()) }
